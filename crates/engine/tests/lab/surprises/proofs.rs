//! Which test holds which surprise: every row of the list in the facts about Talos, and every line of what a client author
//! trips over, with the tests that fail when the lab or our client forgets it.
//!
//! A name stands for a test of the crate before it. That it is there, that it runs, and that no row and no line is left
//! out, is itself tested; the latter in `conformance/recordings/run`, with the facts. A line that asks nothing of a client
//! says why instead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is said, and the tests that hold it: `crate: test, test; crate: test`.
type Proofs = &'static [(&'static str, &'static str)];

/// By the number of the row.
const ROWS: &[(u32, Proofs)] = &[
    (
        1,
        &[
            ("nothing said means a restart", "lab: an_apply_without_a_mode_restarts"),
            ("1.14 refuses that", "lab: the_newest_release_never_restarts_for_a_configuration"),
            (
                "so the mode is always said",
                "talos-client: the_mode_of_an_apply_is_always_said; engine: an_apply_does_not_restart_by_accident",
            ),
        ],
    ),
    (
        2,
        &[
            (
                "1.14 is generated as many documents, install among them",
                "talos: equals_what_talos_itself_generates, the_documents_of_1_14",
            ),
            ("its mode auto never restarts", "lab: the_newest_release_never_restarts_for_a_configuration"),
            (
                "its installers are at the factory only",
                "lab: the_public_registry_has_no_newest_installer; engine: an_installer_that_fails_is_a_failure",
            ),
            ("the alphabet of cluster ids", "talos: the_alphabet_of_cluster_ids_changed_with_1_14"),
            (
                "the newest TLS only",
                "lab: the_newest_kubernetes_takes_no_older_tls; engine: every_release_comes_up",
            ),
            ("etcd's port for metrics: nobody here speaks to etcd but through Talos", ""),
        ],
    ),
    (3, &[("the golden files come out", "talos: equals_what_talos_itself_generates")]),
    (
        4,
        &[(
            "YAML beside protobuf, always",
            "lab: every_resource_is_readable_as_yaml; talos-client: recorded_resources_are_read",
        )],
    ),
    (
        5,
        &[(
            "an unknown type is forbidden",
            "lab: an_unknown_type_is_a_matter_of_permission; engine: a_forbidden_type_is_one_that_the_release_lacks",
        )],
    ),
    (
        6,
        &[(
            "the new upgrade asks nobody and fails by a number",
            "lab: an_installer_fails_by_its_exit_code_only; talos-client: an_installer_that_fails_is_a_failure_though_the_stream_ends_well; engine: an_installer_that_fails_is_a_failure, the_old_way_asks_etcd",
        )],
    ),
    (
        7,
        &[(
            "healthy, and old",
            "lab: a_machine_may_come_back_healthy_and_old; engine: a_machine_may_come_back_healthy_and_old, a_release_that_does_not_come_up_leaves_the_old_one_running",
        )],
    ),
    (
        8,
        &[(
            "locked out is told by an event only",
            "lab: a_sequence_that_is_locked_out_is_told_by_an_event_only; talos-client: a_restart_that_is_refused_or_fails_is_told_by_events_only; engine: a_sequence_that_was_not_begun_is_heard_of",
        )],
    ),
    (
        9,
        &[(
            "a waiting 1.12 has no Version",
            "lab: an_old_machine_that_waits_offers_next_to_nothing; talos-client: an_old_release_tells_its_version_as_a_resource; engine: an_old_machine_is_known_by_its_resources",
        )],
    ),
    (
        10,
        &[(
            "a waiting 1.12 refuses NO_REBOOT",
            "lab: an_old_machine_that_waits_wants_the_mode_auto; talos-client: maintenance_tells_who_it_is_and_takes_the_configuration_over_one_connection",
        )],
    ),
    (
        11,
        &[
            ("JSON patches are dead", "talos: json_patches_are_refused_with_their_strategic_form"),
            (
                "a host name needs auto off",
                "talos: a_host_name_needs_the_automatic_one_off, documents_name_the_card_by_its_mac",
            ),
        ],
    ),
    (12, &[("kernel arguments belong in the schematic", "talos: kernel_arguments_belong_in_the_schematic")]),
    (
        13,
        &[
            (
                "labels and sizes of keys",
                "talos: new_keys_have_the_encodings_that_talos_writes, a_new_rsa_key_is_pkcs1_and_loads",
            ),
            (
                "authorities: one without a name, all for both uses",
                "talos: a_new_bundle_survives_its_own_file",
            ),
            (
                "for clients only, roles in O",
                "talos: a_client_certificate_says_what_talos_looks_for; lab: unwanted_clients_are_told_by_an_alert",
            ),
        ],
    ),
    (14, &[("an old encryption stays what it is", "talos: an_old_encryption_is_kept_under_every_contract")]),
    (
        15,
        &[
            (
                "a worker waits for trustd",
                "lab: a_worker_waits_for_the_trustd_of_its_own_cluster, without_discovery_a_worker_needs_the_endpoint",
            ),
            (
                "and nobody waits for the worker before",
                "engine: an_empty_proxmox_becomes_a_healthy_cluster_and_a_second_run_is_empty",
            ),
        ],
    ),
    (
        16,
        &[(
            "a restart forgets a bootstrap",
            "lab: a_restart_forgets_a_bootstrap; engine: a_forgotten_bootstrap_is_asked_for_again",
        )],
    ),
    (
        17,
        &[
            ("the agent runs while it waits", "lab: the_guest_agent_runs_already"),
            ("what of the drive is understood", "lab: the_drive_of_the_platform_is_in_force"),
        ],
    ),
    (
        18,
        &[(
            "a boot medium is never attached, the disk is what is booted",
            "model: nothing_said_is_right_by_default, everything_the_file_says_is_there; lab: only_a_disk_that_is_not_compressed_can_be_booted",
        )],
    ),
    (
        19,
        &[(
            "the names of event types",
            "lab: a_sequence_that_is_locked_out_is_told_by_an_event_only; talos-client: events_are_read_and_end_well",
        )],
    ),
    (
        20,
        &[
            (
                "early pings",
                "lab: early_pings_end_the_connection; talos-client: an_idle_stream_is_left_alone; engine: an_idle_stream_lives_for_an_hour",
            ),
            (
                "large messages",
                "lab: messages_are_larger_than_usual; talos-client: messages_larger_than_the_usual_limit_are_taken; engine: a_large_configuration_is_read_back",
            ),
        ],
    ),
    (
        21,
        &[(
            "several at once",
            "lab: a_call_for_several_hides_failures_and_is_dying_out; talos-client: a_configured_machine_answers_and_is_dialled_again",
        )],
    ),
    (
        22,
        &[
            (
                "ids are known without a factory",
                "talos: the_ids_are_those_that_factories_give, an_id_that_cannot_be_known_is_not_guessed; lab: ids_are_those_of_the_real_factory",
            ),
            (
                "order counts, and it must be posted",
                "talos: the_order_of_a_list_stays; lab: a_schematic_is_kept_under_the_hash_of_its_canonical_text, images_are_refused_in_the_order_in_which_faults_are_found",
            ),
        ],
    ),
    (
        23,
        &[
            ("no checksums for nothing", "lab: images_are_refused_in_the_order_in_which_faults_are_found"),
            (
                "nothing compressed",
                "lab: only_a_disk_that_is_not_compressed_can_be_booted; talos: every_asset_has_the_name_that_factories_give_it",
            ),
        ],
    ),
    (
        24,
        &[(
            "nobody protects the majority",
            "lab: a_wipe_asks_nobody_about_the_majority, removal_is_refused_when_the_rest_could_not_decide, an_installer_fails_by_its_exit_code_only; engine: a_lost_majority_has_words_and_a_snapshot",
        )],
    ),
    (
        25,
        &[
            ("the last writer wins", "lab: of_two_writers_the_last_one_wins_in_silence"),
            (
                "so writers are kept apart, and look before they write",
                "engine: of_two_who_begin_at_once_one_works, a_configuration_that_was_changed_by_hand_is_put_right_where_that_does_not_disturb",
            ),
        ],
    ),
    (
        26,
        &[(
            "both kinds of bundles",
            "talos: a_bundle_that_talos_made_is_read_and_written_back, a_state_gives_the_same_bundle",
        )],
    ),
    (
        27,
        &[
            ("a restart does not drain", "lab: a_restart_does_not_drain"),
            ("force skips etcd only", "lab: force_skips_the_questions_to_etcd_and_no_other"),
            ("so draining is ours", "engine: the_labs_kubernetes_answers_the_engine"),
        ],
    ),
    (28, &[("kubelets are asked, too", "engine: a_kubelet_that_lags_behind_is_found")]),
    (
        29,
        &[(
            "the last control plane comes back",
            "lab: the_last_member_comes_back_unwiped; engine: the_last_control_plane_comes_back_unwiped",
        )],
    ),
    (
        30,
        &[(
            "resources go through, one machine a call",
            "lab: a_call_for_several_hides_failures_and_is_dying_out",
        )],
    ),
];

/// By the words that a line starts with.
const LINES: &[(&str, Proofs)] = &[
    (
        "Streams held open delay the switch",
        &[(
            "",
            "lab: a_stream_that_is_held_open_delays_the_switch, the_port_goes_through_the_recorded_states; engine: an_apply_leaves_nothing_open_that_delays_the_switch",
        )],
    ),
    (
        "Between the apply answer and the switch",
        &[(
            "",
            "lab: a_second_apply_before_the_switch_is_not_authorized; talos-client: a_machine_that_is_switching_over_denies; engine: a_denied_second_apply_has_a_kind_of_its_own",
        )],
    ),
    (
        "mTLS Version OK does not mean installed",
        &[("a medium need not be played; installing is not up", "talos-client: ready_alone_says_nothing")],
    ),
    (
        "An installer image that cannot be pulled",
        &[(
            "maintenance again",
            "engine: a_configuration_that_is_lost_is_sent_again; talos-client: a_machine_that_comes_back_bare_or_not_at_all_is_told",
        )],
    ),
    (
        "`ready: true` and no unmet conditions",
        &[(
            "",
            "lab: ready_says_nothing_without_the_stage; talos-client: ready_alone_says_nothing; engine: ready_does_not_mean_up",
        )],
    ),
    (
        "When a sequence cuts off the boot",
        &[(
            "",
            "lab: running_may_be_the_last_breath, a_cut_off_boot_is_running_for_a_moment; talos-client: a_restart_is_over_when_the_boot_id_changed_and_it_stays_running",
        )],
    ),
    (
        "A kubelet or etcd image that cannot be pulled",
        &[("", "lab: an_image_that_is_not_there_fails_for_good, an_etcd_without_an_image_cannot_be_started")],
    ),
    (
        "LOCKED events carry no actor id",
        &[
            (
                "locked",
                "lab: a_sequence_that_is_locked_out_is_told_by_an_event_only, a_reset_waits_for_nobody_and_is_refused_by_an_event_only; engine: a_sequence_that_was_not_begun_is_heard_of",
            ),
            (
                "taken over",
                "lab: a_restart_takes_over_from_a_restart, a_reboot_replaces_a_reboot; engine: a_restart_that_was_taken_over_is_no_failure",
            ),
        ],
    ),
    (
        "At shutdown of machined the Events stream ends",
        &[(
            "",
            "lab: streams_end_without_saying_why; talos-client: events_are_read_and_end_well, a_watch_tells_changes_and_breaks_when_the_machine_goes; engine: streams_end_and_the_boot_id_tells",
        )],
    ),
    (
        "After a reboot the event buffer begins anew",
        &[("", "lab: a_boot_forgets_what_was_published; engine: streams_end_and_the_boot_id_tells")],
    ),
    (
        "Graceful Reset of the only control plane",
        &[(
            "",
            "lab: the_last_member_comes_back_unwiped, the_only_member_cannot_be_reset_gracefully; engine: the_last_control_plane_comes_back_unwiped",
        )],
    ),
    (
        "`Kubeconfig` works before Bootstrap",
        &[(
            "",
            "lab: the_kubeconfig_is_there_before_the_cluster, the_kubeconfig_is_a_gzip_of_a_tar_without_an_end, a_joining_member_has_no_name_and_no_vote; engine: before_the_cluster_there_is_a_kubeconfig_and_no_answer_of_etcd",
        )],
    ),
    (
        "Two Bootstraps within half a second",
        &[(
            "",
            "lab: two_bootstraps_at_once_are_both_well; engine: a_second_bootstrap_is_well_and_a_late_one_is_not",
        )],
    ),
    (
        "After EtcdLeaveCluster",
        &[
            (
                "left",
                "lab: a_bootstrap_after_leaving_is_a_second_cluster, a_member_that_left_can_only_begin_a_cluster_of_its_own",
            ),
            (
                "removed",
                "lab: a_removed_member_that_lives_never_comes_back; engine: members_leave_and_are_removed",
            ),
        ],
    ),
    (
        "EtcdRecover took seven bytes of garbage",
        &[(
            "",
            "lab: garbage_is_taken_for_a_snapshot; talos-client: snapshots_are_checked_on_both_ways; engine: a_snapshot_brings_a_lost_cluster_back",
        )],
    ),
    ("Joining control plane", &[("", "lab: a_joining_member_has_no_name_and_no_vote")]),
    (
        "TRY: active config changes",
        &[(
            "",
            "lab: a_trial_is_taken_back_in_time, a_second_trial_makes_the_first_one_the_state_to_return_to",
        )],
    ),
    (
        "TRY in maintenance is dangerous",
        &[(
            "",
            "lab: a_trial_leaves_no_api; talos-client: maintenance_tells_who_it_is_and_takes_the_configuration_over_one_connection",
        )],
    ),
    (
        "STAGED in maintenance of a fresh disk image",
        &[(
            "",
            "lab: what_is_staged_is_lost; talos-client: maintenance_tells_who_it_is_and_takes_the_configuration_over_one_connection",
        )],
    ),
    (
        "A partial config",
        &[(
            "",
            "lab: a_partial_configuration_changes_the_certificate; engine: the_certificate_may_change_and_the_identity_stays",
        )],
    ),
    (
        "Dry-run and error diffs",
        &[(
            "",
            "lab: differences_hold_secrets_in_clear; talos-client: a_difference_names_places_and_never_values, a_refused_configuration_is_told_without_its_content; engine: no_secret_comes_out_of_a_difference",
        )],
    ),
    (
        "A worker config on a control plane passes",
        &[("", "lab: a_dry_run_lets_wrong_things_pass, every_mode_is_answered_with_the_one_that_was_used")],
    ),
    ("Fan-out answers come in any order", &[("", "lab: a_call_for_several_hides_failures_and_is_dying_out")]),
    ("HealthCheck with wait_timeout unset", &[("", "lab: a_check_of_health_without_a_limit_ends_at_once")]),
    ("nocloud drive as Proxmox writes it", &[("", "lab: the_drive_of_the_platform_is_in_force")]),
    (
        "Clock: trustd, etcd and kubelet all wait",
        &[(
            "",
            "lab: without_a_clock_there_is_an_api_and_nothing_else; engine: without_a_time_server_the_clock_is_named_and_with_one_it_goes_on",
        )],
    ),
    ("Disks lists", &[("", "lab: not_every_disk_is_one; engine: only_real_disks_are_writable")]),
    (
        "SystemDisks exists in maintenance",
        &[("", "lab: a_disk_image_is_installed_and_has_no_state; engine: only_real_disks_are_writable")],
    ),
    (
        "Services seen on V",
        &[(
            "",
            "lab: only_the_services_of_the_system_are_there, services_take_orders_that_change_nothing; engine: services_take_orders_that_change_nothing",
        )],
    ),
];

/// Every test in the sources of a crate, and whether it runs: with the others, or with those that need recordings.
fn tests_of(folder: &Path, found: &mut BTreeMap<String, bool>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            tests_of(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for (number, line) in lines.iter().enumerate() {
                let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
                let Some((name, _)) = function.and_then(|rest| rest.split_once('(')) else { continue };
                let marks: Vec<&&str> =
                    lines[..number].iter().rev().take_while(|line| line.starts_with("#[")).collect();
                if marks.iter().any(|mark| mark.starts_with("#[test]") || mark.starts_with("#[tokio::test")) {
                    let ignored = marks.iter().find(|mark| mark.starts_with("#[ignore"));
                    let runs = ignored.is_none_or(|mark| mark.contains("conformance/recordings/run"));
                    *found.entry(name.to_owned()).or_insert(false) |= runs;
                }
            }
        }
    }
}

#[test]
fn every_surprise_names_tests_that_run() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut known: BTreeMap<&str, BTreeMap<String, bool>> = BTreeMap::new();
    let proofs = ROWS.iter().flat_map(|(_, proofs)| *proofs);
    let proofs = proofs.chain(LINES.iter().flat_map(|(_, proofs)| *proofs));
    let mut missing = vec![];
    for (said, tests) in proofs.filter(|(said, tests)| !tests.is_empty() || said.is_empty()) {
        assert!(!tests.is_empty(), "nothing holds what is not even said");
        for part in tests.split("; ") {
            let (name, tests) = part.split_once(": ").unwrap_or_else(|| panic!("{part:?} has no crate"));
            let found = known.entry(name).or_insert_with(|| {
                let mut found = BTreeMap::new();
                for folder in ["src", "tests"].map(|folder| crates.join(name).join(folder)) {
                    if folder.is_dir() {
                        tests_of(&folder, &mut found);
                    }
                }
                found
            });
            missing.extend(
                tests
                    .split(", ")
                    .filter(|test| found.get(*test) != Some(&true))
                    .map(|test| (name, test, said)),
            );
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn facts(name: &str) -> String {
    let folder = std::env::var("RECORDINGS")
        .unwrap_or_else(|_| panic!("RECORDINGS is not set: run conformance/recordings/run"));
    let file = format!("{folder}/facts/{name}");
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("could not read {file}: {error}"))
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn no_surprise_of_the_list_is_left_out() {
    let text = facts("talos.md");
    let list = text.lines().skip_while(|line| !line.starts_with("## 9. Surprises"));
    let numbers: Vec<u32> = list.filter_map(|line| line.split_once(". ")?.0.parse().ok()).collect();
    assert_eq!(ROWS.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers);
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn no_line_that_a_client_author_trips_over_is_left_out() {
    let text = facts("talos-observed.md");
    let part = text.lines().skip_while(|line| *line != "## Facts a client author trips over").skip(1);
    let lines: Vec<String> = part
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| Some(line.strip_prefix("- ")?.trim_start_matches("**").to_owned()))
        .collect();
    let unheld: Vec<_> = lines
        .iter()
        .filter(|line| LINES.iter().filter(|(begin, _)| line.starts_with(begin)).count() != 1)
        .collect();
    assert!(unheld.is_empty(), "{unheld:#?}");
    let begins: BTreeSet<&str> = LINES.iter().map(|(begin, _)| *begin).collect();
    assert_eq!((begins.len(), lines.len()), (LINES.len(), LINES.len()), "every line once");
}
