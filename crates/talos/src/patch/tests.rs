//! What Talos' documentation and facts say about patches; its own library is asked by the conformance run.

use super::*;

fn release(minor: u32) -> Contract {
    Contract::parse(&format!("v1.{minor}")).unwrap()
}

fn patched(config: &str, patch: &str, minor: u32) -> Result<String, PatchError> {
    let mut documents = Documents::parse(config).unwrap();
    Patch::parse(patch, release(minor), &Values::new())?.apply(&mut documents)?;
    Ok(documents.to_yaml())
}

#[track_caller]
fn assert_patched(config: &str, patch: &str, minor: u32, expected: &str) {
    let result = patched(config, patch, minor).unwrap();
    let expected = Documents::parse(expected).unwrap();
    assert_eq!(Documents::parse(&result).unwrap(), expected, "{result}");
}

#[test]
fn scalars_replace_unless_they_are_zero() {
    let config = "machine: {type: worker, install: {disk: /dev/sda, wipe: true}, kubelet: {image: a:v1}}";
    assert_patched(
        config,
        "machine: {type: '', install: {disk: /dev/sdb, wipe: false}, kubelet: {image: ''}}",
        14,
        "machine: {type: worker, install: {disk: /dev/sdb, wipe: false}, kubelet: {image: a:v1}}",
    );
}

#[test]
fn optional_zeroes_replace_since_1_12() {
    let config = "{apiVersion: v1alpha1, kind: OOMConfig, sampleInterval: 5s}\n---\n{apiVersion: v1alpha1, kind: KubeSpanConfig, enabled: true, mtu: 1400}";
    let patch = "{apiVersion: v1alpha1, kind: KubeSpanConfig, mtu: 0}";
    assert_patched(config, patch, 13, &config.replace("mtu: 1400", "mtu: 0"));
}

#[test]
fn lists_append_and_tagged_ones_are_replaced() {
    assert_patched(
        "machine: {certSANs: [a]}\ncluster: {network: {podSubnets: [10.0.0.0/8], serviceSubnets: [10.1.0.0/16]}}",
        "machine: {certSANs: [b]}\ncluster: {network: {podSubnets: [10.2.0.0/16]}}",
        13,
        "machine: {certSANs: [a, b]}\ncluster: {network: {podSubnets: [10.2.0.0/16], serviceSubnets: [10.1.0.0/16]}}",
    );
}

#[test]
fn elements_with_names_are_merged_by_them() {
    assert_patched(
        "machine: {network: {interfaces: [{interface: eth0, mtu: 1500, vlans: [{vlanId: 5, mtu: 1}]}, {deviceSelector: {hardwareAddr: a}, mtu: 1}]}}",
        "machine: {network: {interfaces: [{interface: eth0, dhcp: true, vlans: [{vlanId: 5, mtu: 2}, {vlanId: 6}]}, {deviceSelector: {hardwareAddr: a}, mtu: 2}, {interface: eth1}]}}",
        13,
        "machine: {network: {interfaces: [{interface: eth0, mtu: 1500, dhcp: true, vlans: [{vlanId: 5, mtu: 2}, {vlanId: 6}]}, {deviceSelector: {hardwareAddr: a}, mtu: 2}, {interface: eth1}]}}",
    );
    assert_patched(
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {a: {b: 1}}}]}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {a: {c: 2}}}, {name: X}]}}",
        13,
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {a: {b: 1, c: 2}}}, {name: X}]}}",
    );
}

#[test]
fn documents_are_matched_by_kind_and_name() {
    assert_patched(
        "{version: v1alpha1, machine: {type: worker}}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a, mtu: 1}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: stable}",
        "{apiVersion: v1alpha1, kind: LinkConfig, name: b, mtu: 2}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a, mtu: 3}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: 'off', hostname: x}",
        13,
        "{version: v1alpha1, machine: {type: worker}}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a, mtu: 3}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: 'off', hostname: x}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: b, mtu: 2}",
    );
}

#[test]
fn deletes_take_out_fields_elements_and_documents() {
    let config = "{version: v1alpha1, machine: {type: worker, nodeLabels: {a: b, c: d}, network: {hostname: x, interfaces: [{interface: eth0}, {interface: eth1}]}}}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a}";
    assert_patched(
        config,
        "machine:\n  nodeLabels: {a: {$patch: delete}}\n  network:\n    hostname: {$patch: delete}\n    interfaces: [{interface: eth0, $patch: delete}, {interface: eth2}]\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a, $patch: delete}",
        13,
        "{version: v1alpha1, machine: {type: worker, nodeLabels: {c: d}, network: {interfaces: [{interface: eth1}, {interface: eth2}]}}}",
    );
    for missing in [
        "machine: {nodeLabels: {z: {$patch: delete}}}",
        "machine: {network: {interfaces: [{interface: z, $patch: delete}]}}",
    ] {
        assert!(matches!(patched(config, missing, 13), Err(PatchError::NothingToDelete { .. })), "{missing}");
    }
    for wrong in [
        "{version: v1alpha1, $patch: delete}",
        "machine: {network: {interfaces: [{vlans: {$patch: delete}}]}}",
        "machine: {network: {interfaces: [{$patch: delete}]}}",
    ] {
        assert!(matches!(patched(config, wrong, 13), Err(PatchError::BadDelete { .. })), "{wrong}");
    }
    let unknown = "{apiVersion: v1alpha1, kind: LinkConfig, name: z, $patch: delete}";
    assert!(patched(config, unknown, 14).is_ok());
    assert!(matches!(patched(config, unknown, 13), Err(PatchError::NothingToDelete { .. })));
}

#[test]
fn what_a_release_does_not_know_is_refused() {
    let config = "machine: {type: worker}";
    let kubelet = "{apiVersion: v1alpha1, kind: KubeletConfig, image: a}";
    assert!(patched(config, kubelet, 14).is_ok());
    let error = patched(config, kubelet, 13).unwrap_err();
    assert!(error.to_string().contains("it came with v1.14"), "{error}");
    let error = patched(config, "machine: {kubelt: {}}", 13).unwrap_err();
    assert!(error.to_string().contains("did you mean \"kubelet\"?"), "{error}");
    let twice = "machine: {debug: true}\n";
    assert!(patched(config, twice, 13).is_err());
    let twice = "debug: true\n---\ndebug: false\n";
    assert!(matches!(patched(config, twice, 13), Err(PatchError::Duplicate { .. })));
    assert_patched(config, twice, 14, "{machine: {type: worker}, debug: false}");
    let other = "{apiVersion: v1alpha1, kind: LinkConfig, name: a}\n---\n{apiVersion: v1alpha1, kind: DummyLinkConfig, name: a}";
    assert!(matches!(patched(config, other, 13), Err(PatchError::Conflict { .. })));
}

#[test]
fn json_patches_are_refused_with_their_strategic_form() {
    let patch = r#"[{"op": "add", "path": "/machine/kubelet/extraArgs/a", "value": "b"}, {"op": "remove", "path": "/cluster/network/cni"}, {"op": "add", "path": "/machine/certSANs/-", "value": "x"}, {"op": "replace", "path": "/machine/network/interfaces/0/mtu", "value": 5}]"#;
    let Err(PatchError::Json { strategic, notes }) = patched("machine: {}", patch, 13) else { panic!() };
    let strategic = strategic.unwrap();
    let form =
        "machine: {kubelet: {extraArgs: {a: b}}, certSANs: [x]}\ncluster: {network: {cni: {$patch: delete}}}";
    assert_eq!(Documents::parse(&strategic).unwrap(), Documents::parse(form).unwrap());
    assert_eq!(notes.len(), 1);
    assert!(Patch::parse(&strategic, release(13), &Values::new()).is_ok());
}

#[test]
fn a_failed_patch_changes_nothing_and_shows_no_values() {
    let config = "machine: {kubelet: {extraConfig: {a: hunter2, b: 1}}}";
    let mut documents = Documents::parse(config).unwrap();
    let patch =
        Patch::parse("machine: {kubelet: {extraConfig: {b: 2, a: {c: d}}}}", release(13), &Values::new())
            .unwrap();
    let error = patch.apply(&mut documents).unwrap_err();
    assert!(error.to_string().starts_with("machine.kubelet.extraConfig.a: is of another kind"), "{error}");
    assert_eq!(documents, Documents::parse(config).unwrap());
    assert!(!format!("{error:?}{patch:?}").contains("hunter2"));
}

/// Texts that are nearly right, made by changing a few letters of right ones: whatever they are, nothing panics.
#[test]
fn no_text_makes_it_panic() {
    let config = "version: v1alpha1\nmachine: {type: worker, certSANs: [a], network: {interfaces: [{interface: eth0, vlans: [{vlanId: 5}]}]}, kubelet: {extraConfig: {a: {b: 1}}}}\ncluster: {controlPlane: {endpoint: 'https://u@a:6443/x'}}\n---\n{apiVersion: v1alpha1, kind: UserVolumeConfig, name: a, provisioning: {minSize: 1GiB, maxSize: 50%}}\n";
    let seeds = [
        config,
        "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: eth1, mtu: 5}]}, kubelet: {extraConfig: {a: {b: {$patch: delete}}}}}\n",
        "- {op: add, path: /machine/certSANs/-, value: 1}\n- {op: remove, path: /a~1b/0}\n",
        "{apiVersion: v1alpha1, kind: UserVolumeConfig, name: a, $patch: delete}\n---\na: &a [1, 0x1F, 1e5, -.inf, ~]\nb: {<<: *a}\n",
        "cluster: {controlPlane: {endpoint: 'https://${node.name}:${x}$${node.y}'}}\n",
    ];
    let mut state = 7_u64;
    let mut next = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    let letters: Vec<char> = "{}[]:,-&*!|>'\"#%@`$~<\n \tab0.é\u{0}".chars().collect();
    let mut read = 0;
    for _ in 0..3000 {
        let mut text: Vec<char> = seeds[next(seeds.len())].chars().collect();
        for _ in 0..=next(3) {
            let at = next(text.len());
            match next(3) {
                0 => text[at] = letters[next(letters.len())],
                1 => text.insert(at, letters[next(letters.len())]),
                _ => drop(text.remove(at)),
            }
        }
        let text: String = text.into_iter().collect();
        let minor = 10 + u32::try_from(next(5)).unwrap();
        let values = Values::new().with("node.name", "cp-1");
        let mut documents = Documents::parse(config).unwrap();
        if let Ok(patch) = Patch::parse(&text, release(minor), &values) {
            read += usize::from(patch.apply(&mut documents).is_ok());
        }
        if let Ok(documents) = Documents::parse(&text) {
            let _ = crate::validate::validate(&documents, release(minor), crate::validate::Mode::Metal);
            assert_eq!(Documents::parse(&documents.to_yaml()).unwrap(), documents);
        }
        let _ = crate::secrets::Bundle::parse(&text);
        let _ = crate::secrets::Bundle::from_tofu_state(&text);
        let _ = crate::schematic::SchematicFile::parse(&text);
    }
    assert!(read > 50, "{read}");
}

#[test]
fn a_key_without_a_value_is_not_there() {
    for minor in [12, 14] {
        let patch = "version:\nmachine: {network: , kubelet: {nodeIP: }, certSANs: }\n";
        let base = "{version: v1alpha1, machine: {type: worker}}\n";
        assert_patched(base, patch, minor, "{version: v1alpha1, machine: {type: worker, kubelet: {}}}");
        // So it can be said again and changes nothing.
        let once = patched(base, patch, minor).unwrap();
        assert_eq!(patched(&once, patch, minor).unwrap(), once);
        let other = "{apiVersion: v1alpha1, kind: HostnameConfig, hostname: a}\n";
        for (base, count) in [(other, 2), ("{version: v1alpha1, machine: }\n", 1)] {
            let once = patched(base, "machine:\n", minor).unwrap();
            assert_eq!(Documents::parse(&once).unwrap().iter().count(), count);
            assert_eq!(patched(&once, "machine:\n", minor).unwrap(), once);
        }
    }
}

#[test]
fn an_entry_without_a_value_is_an_empty_text() {
    for minor in [12, 13, 14] {
        let patch = "machine: {sysctls: {a: , b: }}\n";
        let base = "{version: v1alpha1, machine: {type: worker, sysctls: {a: one}}}";
        let both = "{version: v1alpha1, machine: {type: worker, sysctls: {a: one, b: ''}}}";
        assert_patched(base, patch, minor, both);
        // In a part that was not there before it is the same, so it can be said again.
        let patch = "cluster: {apiServer: {env: {X: }}}\n";
        let base = "{version: v1alpha1, cluster: {}}";
        assert_patched(base, patch, minor, "{version: v1alpha1, cluster: {apiServer: {env: {X: ''}}}}");
        let once = patched(base, patch, minor).unwrap();
        assert_eq!(patched(&once, patch, minor).unwrap(), once);
        // What a configuration had is written that way, too.
        let base = "{version: v1alpha1, machine: {sysctls: {a: }}}";
        let other = "machine: {sysctls: {b: x}}\n";
        assert_patched(base, other, minor, "{version: v1alpha1, machine: {sysctls: {a: '', b: x}}}");
        // Where anything may stand, nothing is a value.
        let free = "machine: {kubelet: {extraConfig: {a: }}}\n";
        let base = "{version: v1alpha1, machine: {kubelet: {}}}";
        assert_patched(
            base,
            free,
            minor,
            "{version: v1alpha1, machine: {kubelet: {extraConfig: {a: null}}}}",
        );
    }
}
