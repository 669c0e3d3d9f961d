//! Files that load, files that do not, and the places that are named.

use super::*;
use crate::diagnostic::render;

/// The smallest useful file, exactly as the design prints it.
const SMALLEST: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: https://pve1:8006 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 3 }
  work:    { role: worker, count: 2 }
";

fn read(text: &str) -> Result<Loaded, Failed> {
    load(&[Source::new("c.yaml", text)])
}

fn problems(text: &str) -> String {
    render(&read(text).expect_err("the file should not load").diagnostics)
}

#[test]
fn the_smallest_file_loads() {
    let loaded = read(SMALLEST).unwrap();
    assert_eq!(loaded.spec.cluster, "home");
    assert_eq!(loaded.spec.pools["control"].count, 3);
    assert_eq!(loaded.spec.network.bridge, "vmbr0");
    assert_eq!(loaded.spec.image.extensions, ["siderolabs/qemu-guest-agent"]);
}

#[test]
fn a_spec_survives_being_written_and_read() {
    let spec = read(SMALLEST).unwrap().spec;
    let again = read(&serde_saphyr::to_string(&spec).unwrap()).unwrap().spec;
    assert_eq!(spec, again);
}

#[test]
fn every_shape_problem_is_found_at_once() {
    let text = "cluster: home
versons: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: https://pve1:8006, insecure: yes }
network: { cidr: 10.25.150.0/24, gatway: 10.25.150.1, vlan: high }
pools:
  control: { role: controller, count: three }
  work:    { role: worker, count: -2, colour: red, labels: { gpu: true } }
nodes: [a, b]
protect: { a: b }
";
    insta::assert_snapshot!(problems(text), @r#"
error[TS0101] unknown key `versons`
  at c.yaml:2:1+7 versons
  help: did you mean `versions`?
error[TS0103] `proxmox.insecure` must be true or false, not "yes"
  at c.yaml:3:51+3 proxmox.insecure
  help: write `insecure: true` or `insecure: false`
error[TS0101] unknown key `network.gatway`
  at c.yaml:4:34+6 network.gatway
  help: did you mean `gateway`?
error[TS0103] `network.vlan` must be a whole number, not "high"
  at c.yaml:4:61+4 network.vlan
  help: write a whole number without quotes, for example `vlan: 3`
error[TS0104] `pools.control.role` cannot be "controller"
  at c.yaml:6:20+10 pools.control.role
  help: known are `controlplane`, `worker`
error[TS0103] `pools.control.count` must be a whole number, not "three"
  at c.yaml:6:39+5 pools.control.count
  help: write a whole number without quotes, for example `count: 3`
error[TS0103] `pools.work.count` is a number out of range: -2
  at c.yaml:7:35+2 pools.work.count
  help: give a number from 0 to 4294967295
error[TS0101] unknown key `pools.work.colour`
  at c.yaml:7:39+6 pools.work.colour
  help: known here are `addresses`, `annotations`, `bios`, `count`, `cpu`, `datastore`, `description`, `disk`, `disks`, `display`, `gpu`, `hosts`, `image`, `kubelet_args`, `labels`, `machine`, `memory`, `network`, `networks`, `patches`, `pci`, `placement`, `role`, `size`, `start_on_boot`, `startup`, `tags`, `taints`, `tpm`, `versions`, `vmids`
error[TS0103] `pools.work.labels.gpu` must be a text, not true
  at c.yaml:7:67+4 pools.work.labels.gpu
  help: write "true" with quotes to mean the text
error[TS0103] `nodes` must be a mapping, not a list
  at c.yaml:8:1+5 nodes
  help: write keys below it, for example `nodes: { … }`; `talosmith explain TS0103` says more
error[TS0103] `protect` must be true or false, not a mapping
  at c.yaml:9:1+7 protect
  help: write `protect: true` or `protect: false`
"#);
}

#[test]
fn a_wrong_shape_hides_nothing_else() {
    let text = "cluster: Home
versions: { talos: v1.13.9, kubernetes: v1.29.0 }
proxmox: { endpoint: 'https://pve1:8006', token: 'root@pam!smith=0a1b2c3d', insecur: true }
network: { cidr: 10.25.150.0/24, gateway: 10.25.151.1, vip: banana, vlan: high }
pools:
  control: { role: controller, count: 3, size: smal }
  work: { role: worker, cuont: 2 }
nodes:
  a: { role: worker, address: 10.25.150.50, mac: 'bc:24:11:XX:00:01' }
  b: { role: worker, address: 10.25.150.50 }
";
    insta::assert_snapshot!(problems(text), @r#"
    error[TS0201] `Home` cannot be the name of a cluster
      at c.yaml:1:10+4 cluster
      help: use lower case letters, digits and `-`, 63 characters at most: `home`
    error[TS0303] Talos v1.13.9 does not support Kubernetes v1.29.0
      at c.yaml:2:41+7 versions.kubernetes
      at c.yaml:2:20+7 versions.talos
      help: with this Talos, use Kubernetes 1.31 to 1.36
    error[TS0501] `proxmox.token` must say where the token is, not what it is
      at c.yaml:3:50+25 proxmox.token
      help: write `env:NAME`, `file:PATH` or `cmd:COMMAND`; a token that was committed should be renewed
    error[TS0101] unknown key `proxmox.insecur`
      at c.yaml:3:77+7 proxmox.insecur
      help: did you mean `insecure`?
    error[TS0403] `network.gateway` is 10.25.151.1, which is not in 10.25.150.0/24
      at c.yaml:4:43+11 network.gateway
      at c.yaml:4:18+14 network.cidr: the network
      help: use an address from 10.25.150.1 to 10.25.150.254
    error[TS0401] `banana` is not an IPv4 address
      at c.yaml:4:61+6 network.vip
      help: write four numbers from 0 to 255, for example `10.25.150.11`
    error[TS0103] `network.vlan` must be a whole number, not "high"
      at c.yaml:4:75+4 network.vlan
      help: write a whole number without quotes, for example `vlan: 3`
    error[TS0104] `pools.control.role` cannot be "controller"
      at c.yaml:6:20+10 pools.control.role
      help: known are `controlplane`, `worker`
    error[TS0601] there is no size called `smal`
      at c.yaml:6:48+4 pools.control.size
      help: add it under `sizes`
    error[TS0101] unknown key `pools.work.cuont`
      at c.yaml:7:25+5 pools.work.cuont
      help: did you mean `count`?
    error[TS0409] `bc:24:11:XX:00:01` cannot be a MAC address
      at c.yaml:9:50+19 nodes.a.mac
      help: write it as `BC:24:11:00:00:01`, the first pair even
    error[TS0405] `a` and `b` both have the address 10.25.150.50
      at c.yaml:10:31+12 nodes.b.address
      at c.yaml:9:31+12 nodes.a.address
      help: give one of them another address
    "#);
    // What only follows from a gap is not said.
    for (whole, gap) in [
        ("versions:", "versons:"),
        ("network:", "netwrk:"),
        ("role: controlplane", "role: boss"),
        ("count: 3", "count: x"),
    ] {
        let found = read(&SMALLEST.replace(whole, gap)).unwrap_err().diagnostics;
        assert_eq!(found.len(), 1, "{gap}\n{}", render(&found));
    }
}

#[test]
fn a_number_keeps_its_digits_where_a_text_belongs() {
    let text = SMALLEST
        .replace("count: 2 }", "count: 2, memory: 8192, disk: 1_0, labels: { rev: 1.10 }, vmids: 0300 }");
    let pool = &read(&text).unwrap().spec.pools["work"];
    assert_eq!(pool.traits.labels["rev"], "1.10");
    assert_eq!(pool.hardware.memory.as_ref().unwrap().details().size.unwrap().0, "8192");
    assert_eq!(pool.vmids.as_ref().unwrap().0, "0300");
}

#[test]
fn a_key_with_nothing_behind_it_is_not_set() {
    let text = format!("{SMALLEST}hosts:\n  pve1:\nendpoint:\nnodes:\n  a: {{ role: , pool: work }}\n");
    let spec = read(&text).unwrap().spec;
    assert_eq!(spec.hosts["pve1"], crate::spec::Host::default());
    assert_eq!(spec.hosts["pve1"].weight, 1);
    assert_eq!(spec.endpoint, None);
}

#[test]
fn a_key_set_twice_shows_both_places() {
    let text = format!("{SMALLEST}protect: true\ncluster: away\n");
    insta::assert_snapshot!(problems(&text), @"
error[TS0002] `cluster` is set twice
  at c.yaml:9:1+7 cluster: set again here
  at c.yaml:1:1+7 cluster: first set here
  help: keep one of the two
");
}

#[test]
fn a_numeric_key_set_twice_is_found_too() {
    let text = format!("{SMALLEST}nodes:\n  11: {{ role: worker }}\n  0xB: {{ role: worker }}\n");
    insta::assert_snapshot!(problems(&text), @"
error[TS0002] `0xB` is set twice
  at c.yaml:10:3+3 : set again here
  help: keep one of the two
");
}

#[test]
fn anchors_and_merge_keys_work_and_point_at_the_original() {
    let text = format!(
        "{SMALLEST}nodes:\n  a: &a {{ role: worker, address: 10.25.150.40, cpu: many }}\n  b:\n    <<: *a\n    address: 10.25.150.41\n    cpu: 2\n"
    );
    insta::assert_snapshot!(problems(&text), @r#"
error[TS0103] `nodes.a.cpu` must be a whole number or a mapping, not "many"
  at c.yaml:9:53+4 nodes.a.cpu
  help: write a whole number without quotes, for example `cpu: 3`
"#);
}

#[test]
fn several_sources_merge_key_by_key() {
    let more = "nodes: { extra: { role: worker, address: 10.25.150.40 } }\nnetwork: { mtu: 9000 }\n";
    let loaded = load(&[Source::new("a", SMALLEST), Source::new("b", more)]).unwrap();
    assert_eq!(loaded.spec.network.mtu, Some(9000));
    assert_eq!(loaded.spec.nodes.len(), 1);

    let clash = "network: { vip: 10.25.150.9 }\npools: { work: { count: 3 } }\nnodes: []\n";
    let failed = load(&[Source::new("a", SMALLEST), Source::new("b", clash)]).unwrap_err();
    insta::assert_snapshot!(render(&failed.diagnostics), @"
error[TS0002] `network.vip` is set twice
  at b:1:12+3 network.vip: set again here
  at a:4:56+3 network.vip: first set here
  help: keep one of the two
error[TS0002] `pools.work.count` is set twice
  at b:2:18+5 pools.work.count: set again here
  at a:7:28+5 pools.work.count: first set here
  help: keep one of the two
error[TS0103] `nodes` must be a mapping, not a list
  at b:3:1+5 nodes
  help: write keys below it, for example `nodes: { … }`; `talosmith explain TS0103` says more
");
}

#[test]
fn what_is_no_yaml_says_where() {
    insta::assert_snapshot!(problems("cluster: home\nnetwork: [1, 2\npools: {}\n"), @"
error[TS0001] this is not valid YAML: illegal placement of ':' indicator
  at c.yaml:3:6+0 
  help: check the indentation, and quote texts that hold `: `, ` #`, or start with one of @ ` * & ! % { [
");
    insta::assert_snapshot!(problems("cluster: home\n\tnetwork: x\n"), @"
error[TS0001] this is not valid YAML: while scanning a plain scalar, found a tab
  at c.yaml:1:10+0 
  help: check the indentation, and quote texts that hold `: `, ` #`, or start with one of @ ` * & ! % { [
");
    insta::assert_snapshot!(problems("a: 1\n---\nb: 2\n"), @"
error[TS0001] the file holds more than one YAML document
  at c.yaml:3:1+0 : the second starts here
  help: remove the line `---`, or make the parts files of their own
");
    insta::assert_snapshot!(problems("a: *nowhere\n"), @"
error[TS0001] this is not valid YAML: reference to unknown value
  at c.yaml:1:4+0 
  help: check the indentation, and quote texts that hold `: `, ` #`, or start with one of @ ` * & ! % { [
");
}

#[test]
fn what_is_no_mapping_says_so() {
    insta::assert_snapshot!(problems("# nothing\n"), @"
error[TS0003] the file is empty
  at c.yaml:2:1+0 
  help: start with `cluster: NAME`
");
    insta::assert_snapshot!(problems("- a\n- b\n"), @"
error[TS0003] the file is not a mapping of keys to values
  at c.yaml:1:1+0 
  help: start with `cluster: NAME`
");
    insta::assert_snapshot!(render(&load(&[]).unwrap_err().diagnostics), @"error[TS0003] there is no file to read");
}

#[test]
fn a_secret_is_masked_before_anyone_can_print_it() {
    let text = SMALLEST.replace("8006 }", "8006, token: \"root@pam!smith=5ecr3t\" }");
    let loaded = read(&text).unwrap();
    assert!(!format!("{loaded:?}").contains("5ecr3t"));
    assert_eq!(loaded.sources[0].text.len(), text.len());
    let url = read(&SMALLEST.replace("https://pve1:8006", "'https://me:5ecr3t@pve1:8006'")).unwrap();
    assert!(!format!("{url:?}").contains("5ecr3t"));
    let failed = read(&text.replace("vip", "vipp")).unwrap_err();
    assert!(!format!("{failed:?}").contains("5ecr3t"));
    let fine = read(&SMALLEST.replace("8006 }", "8006, token: env:TOKEN }")).unwrap();
    assert_eq!(fine.spec.proxmox.token.as_deref(), Some("env:TOKEN"));
}

#[test]
fn hostile_files_are_refused_quickly() {
    let deep = format!("cluster: {}", "[".repeat(100_000));
    assert!(problems(&deep).contains("TS0004"));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let items = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{items}]\n"));
    }
    assert!(problems(&bomb).contains("TS0004"));
    assert!(problems("cluster: &a [*a]\n").contains("TS0001"));
    assert!(problems(&"#".repeat(17 << 20)).contains("TS0004"));
    // Where a value is only handed on, nesting is the parser's to limit.
    for depth in [30, 36, 60, 100, 1_000, 10_000] {
        let (open, close) = ("{a: ".repeat(depth), "}".repeat(depth));
        for patch in [format!("{open}x{close}"), format!("|\n    a:\n     {open}x{close}")] {
            let nested = format!("{SMALLEST}patches:\n  - {patch}\n");
            let found = match read(&nested) {
                Ok(loaded) => loaded.check().len(),
                Err(failed) => failed.diagnostics.len(),
            };
            assert!(found > 0);
        }
    }
}

#[test]
fn places_cover_the_value_or_the_key() {
    let loaded = read(SMALLEST).unwrap();
    let text = |path: &[&str], at_key| {
        let span = loaded.tree.span_of(&Path::of(path), at_key);
        &SMALLEST[span.start..span.end]
    };
    assert_eq!(text(&["network", "vip"], false), "10.25.150.10");
    assert_eq!(text(&["network", "vip"], true), "vip");
    assert_eq!(text(&["pools", "work"], false), "work");
    assert_eq!(text(&["pools", "work", "addresses"], false), "work");
    assert_eq!(text(&["hosts", "x"], false), "");
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 256, failure_persistence: None, ..Default::default() })]

    /// Whatever a file holds, it is read or refused; every place lies in the text, on the border of a character.
    #[test]
    fn no_text_makes_it_panic(start in 0..300usize, piece in "[-a-z0-9:{}\\[\\],&*!|>'\"#%é \n\t.@]{0,40}") {
        let at = SMALLEST.len().min(start);
        let text = format!("{}{piece}{}", &SMALLEST[..at], &SMALLEST[at..]);
        let (diagnostics, sources) = match read(&text) {
            Ok(loaded) => (loaded.check(), loaded.sources),
            Err(failed) => (failed.diagnostics, failed.sources),
        };
        for place in diagnostics.iter().flat_map(|d| &d.labels).filter_map(|label| label.place.as_ref()) {
            assert!(sources[0].text.get(place.span.start..place.span.end).is_some(), "{text:?} {place:?}");
        }
    }
}

/// A file from before goes on to mean the same.
#[test]
fn a_section_is_read_under_its_old_name_with_a_warning() {
    let old =
        read(&format!("{SMALLEST}upgrade: {{ workers: 20%, return_timeout: 9m, pause: 1m }}\n")).unwrap();
    let new = read(&format!("{SMALLEST}changes: {{ workers: 20%, ready_timeout: 9m, soak: 1m }}\n")).unwrap();
    assert_eq!(old.spec, new.spec);
    assert_eq!(render(&new.check()), "");
    insta::assert_snapshot!(render(&old.check()), @r"
    warning[TS0105] `upgrade` is called `changes` now
      at c.yaml:8:1+7 upgrade
      help: write `changes`; a later release will not read the old name
    warning[TS0105] `upgrade.return_timeout` is called `ready_timeout` now
      at c.yaml:8:26+14 upgrade.return_timeout
      help: write `ready_timeout`; a later release will not read the old name
    warning[TS0105] `upgrade.pause` is called `soak` now
      at c.yaml:8:46+5 upgrade.pause
      help: write `soak`; a later release will not read the old name
    ");
}
