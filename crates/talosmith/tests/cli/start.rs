//! The commands that need no world: a first file, looking at it, and other tools' files.

use crate::shell::{HOME, Shell};

#[test]
fn a_good_file_is_said_to_be_good_in_one_line() {
    let shell = Shell::with(HOME);
    std::fs::create_dir(shell.path().join("examples")).unwrap();
    shell.write("examples/home.yaml", HOME);
    insta::assert_snapshot!(shell.ok("validate examples/home.yaml"), @r#"examples/home.yaml is valid: home, 3 control plane nodes and 2 worker nodes, Talos v1.13.9, Kubernetes v1.35.4, API at https://10.25.150.10:6443."#);
    assert_eq!(shell.ok("validate"), shell.ok("validate -f cluster.yaml"));
    assert_eq!(shell.run("validate examples/home.yaml -f cluster.yaml").code, Some(64), "one or the other");
}

#[test]
fn a_folder_is_one_file_in_parts() {
    let shell = Shell::with(HOME);
    let parts = shell.path().join("home");
    std::fs::create_dir_all(parts.join("deeper")).unwrap();
    let (head, pools) = HOME.split_once("pools:").unwrap();
    shell.write("home/10-cluster.yaml", head);
    shell.write("home/20-pools.yml", &format!("pools:{pools}"));
    shell.write("home/notes.txt", "not YAML: [");
    shell.write("home/deeper/values.yaml", "not: ours");
    assert_eq!(shell.ok("show -f home"), shell.ok("show"));
    shell.ok("plan -f home --lab --lab-speed max");
    assert!(parts.join(".talosmith/lab/home/world.json").exists(), "what belongs to it lies in it");

    shell.write("home/30-more.yaml", "network: { vip: 10.25.150.9 }\n");
    insta::assert_snapshot!(shell.run("validate home").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0002]: `network.vip` is set twice
     --> home/10-cluster.yaml:5:56
      |
    5 | network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
      |                                                        --- first set here
      |
     ::: home/30-more.yaml:1:12
      |
    1 | network: { vip: 10.25.150.9 }
      |            ^^^ set again here
      |
      = hint: keep one of the two

    1 problem in home/10-cluster.yaml, home/20-pools.yml, home/30-more.yaml; nothing was changed.
    "#);
    std::fs::create_dir(shell.path().join("empty")).unwrap();
    insta::assert_snapshot!(shell.run("validate empty").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error: there is no .yaml or .yml file in the folder empty
      hint: `talosmith init -f FOLDER` writes one to start from
    "#);
}

#[test]
fn what_the_file_decides_is_shown_as_a_table_and_as_data() {
    let shell = Shell::with(HOME);
    assert!(shell.ok("show").contains("home-work-2     worker   open  150022  10.25.150.22"));
    let data: serde_json::Value = serde_json::from_str(&shell.ok("show --json")).unwrap();
    assert_eq!(data["nodes"]["home-control-1"]["vmid"], 150_011);
    assert_eq!(data["nodes"]["home-control-1"]["host"], serde_json::Value::Null, "open, not guessed");
}

#[test]
fn a_first_file_from_options_alone() {
    let shell = Shell::with(HOME);
    insta::assert_snapshot!(shell.run("init").all(), @r#"
    exit Some(64)
    --- stdout
    --- stderr
    error: cluster.yaml already exists
      hint: name another file, or add `--force` to write over it
    "#);
    insta::assert_snapshot!(
        shell.run("init -f mill.yaml --cluster mill --cidr 10.7.0.0/24 --control-planes 1 --workers 0").all(), @r#"
        exit Some(0)
        --- stdout
        Written to mill.yaml: mill, 1 control plane node, Talos v1.13.9, Kubernetes v1.36.3, API at https://10.7.0.10:6443.
        --- stderr
        Proxmox was not asked, because no `--endpoint` was given; `proxmox.endpoint` is only an example.
        Read it and change what does not fit. Next: `talosmith show -f mill.yaml`, then `talosmith plan -f mill.yaml`.
        "#);
    insta::assert_snapshot!(shell.ok("validate mill.yaml"), @r#"mill.yaml is valid: mill, 1 control plane node, Talos v1.13.9, Kubernetes v1.36.3, API at https://10.7.0.10:6443."#);
    insta::assert_snapshot!(shell.run("init -f bad.yaml --cidr banana --control-planes 0").all(), @r#"
    exit Some(64)
    --- stdout
    --- stderr
    error[TS0402]: `banana` is not a network
      --> bad.yaml (not written):18:9
       |
    18 |   cidr: banana
       |         ^^^^^^
       |
       = hint: write its first address and prefix length, for example `10.25.150.0/24`

    error[TS0602]: there is no control plane
      --> bad.yaml (not written):30:1
       |
    30 | pools:
       | ^^^^^
       |
       = hint: add a pool: `control: { role: controlplane, count: 3 }`

    2 problems in bad.yaml (not written); nothing was changed.
    bad.yaml was not written: correct the options and run `talosmith init` again.
    "#);
    assert!(!shell.path().join("bad.yaml").exists());
    assert_eq!(shell.run("init --print --cluster x").code, Some(0));
    assert_eq!(shell.run("init --force").code, Some(0));
}

#[test]
fn a_first_file_from_what_proxmox_has() {
    let shell = Shell::with("");
    insta::assert_snapshot!(shell.ok("init --lab --lab-speed max --force"), @r#"
    Written to cluster.yaml: home, 3 control plane nodes and 2 worker nodes, Talos v1.13.9, Kubernetes v1.36.3, API at https://10.25.150.10:6443.
    Filled in from Proxmox: pve1, pve2, pve3.
    "#);
    let file = std::fs::read_to_string(shell.path().join("cluster.yaml")).unwrap();
    let hosts = file.split("\nhosts:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    insta::assert_snapshot!(hosts, @r#"
    pve1: # 64 GiB of memory
      datastores:
        image: local # of local
        disks: local-lvm # of local-lvm (745 GiB free)
    pve2: # 64 GiB of memory
      datastores:
        image: local # of local
        disks: local-lvm # of local-lvm (745 GiB free)
    pve3: # 64 GiB of memory
      datastores:
        image: local # of local
        disks: local-lvm # of local-lvm (745 GiB free)
    "#);
    assert!(shell.ok("plan --lab --lab-speed max").contains("VMs to create"), "and Proxmox can give it");
}

#[test]
fn another_tools_files_are_read() {
    let shell = Shell::with("");
    std::fs::create_dir_all(shell.path().join("tofu/image")).unwrap();
    shell.write(
        "tofu/main.tf",
        r#"module "cluster" {
  source  = "git::https://git.example/modules.git"
  image   = { version = "v1.12.6", schematic_path = "image/missing.yaml" }
  cluster = { name = "copse", vip = "10.9.0.5", gateway = "10.9.0.1", subnet_mask = "24", kubernetes_version = "v1.35.2" }
  flux_bootstrap_repo = { username = "me", name = "fleet" }
  colour = "green"
  nodes = {
    "ctrl-00" = { host_node = "ridge", machine_type = "controlplane", ip = "10.9.0.11", vm_id = 800, cpu = 2, ram_dedicated = 4096 }
    "work-00" = { host_node = "ridge", machine_type = "worker", ip = "10.9.0.21", vm_id = 821, cpu = 2, ram_dedicated = 4096, mac_address = data.x.y }
  }
}
"#,
    );
    insta::assert_snapshot!(shell.run("import tofu -o copse.yaml").all(), @r#"
    exit Some(0)
    --- stdout
    --- stderr
    Assumed, because the input does not say it [TS0807]:
    - where nodes say nothing, disks lie on `samsung-500gb`, boot disks have 10G and 50G, and the CPU is the host's: the module takes it for granted
    - where no MAC address is given, Proxmox drew one; here it is derived, so set `mac` to keep one that exists
    - the input does not say where Proxmox is; `https://ridge:8006` was taken

    Different now [TS0805]:
    - tofu/main.tf:4: the module never used its Kubernetes version; the cluster may run another one
      hint: compare with `kubectl get nodes` before the first apply
    - tofu/main.tf:5: the input names user and repository, but not the Git server
      hint: set `gitops.repository` and `gitops.path`; reading is enough, nothing is written to it

    Not evaluated, so missing in the file [TS0803]:
    - tofu/main.tf:9: `data.x.y` was not evaluated: these files do not say what it is
      hint: write its value instead, and import again, or set the value in the result

    Not carried over [TS0804]:
    - tofu/main.tf:6: `colour` has no counterpart here

    Read as a module call with `nodes` and `flux_bootstrap_repo`, written to copse.yaml: no problems, 1 expression not evaluated, 1 key not carried over.
    "#);
    let file = std::fs::read_to_string(shell.path().join("copse.yaml")).unwrap();
    assert!(file.contains("schematic: tofu/image/missing.yaml"), "{file}");
    // The import keeps the name of a file that is not there, and validating says so; once it is there, all is well.
    let lacking = shell.run("validate copse.yaml");
    assert!(lacking.code == Some(3) && lacking.err.contains("TS0005"), "{}", lacking.all());
    shell.write("tofu/image/missing.yaml", "customization: {}\n");
    assert!(shell.ok("validate copse.yaml").contains("copse, 1 control plane node and 1 worker node"));
    let again = shell.run("import tofu -o copse.yaml");
    assert_eq!(again.code, Some(64), "{}", again.all());
    assert!(again.err.contains("copse.yaml"), "{}", again.err);

    let printed = shell.run("import tofu/main.tf");
    assert!(
        printed.out.starts_with("# Imported from") && !printed.err.contains("# Imported"),
        "{}",
        printed.all()
    );
    let data: serde_json::Value = serde_json::from_str(&shell.run("import tofu --json").out).unwrap();
    assert_eq!(data["format"], "flux-module-call");
    assert!(data["notes"].as_array().unwrap().iter().any(|note| note["code"] == "TS0804"));

    shell.write("other.yaml", "apiVersion: v1\n");
    insta::assert_snapshot!(shell.run("import other.yaml").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0801]: nothing in other.yaml is of a known format
     |
     = hint: known are `nodes_config` with defaults by role; `talos_nodes` with `talos_cluster_config`; a module call with `cluster`, `image` and `nodes`; a module call with `nodes` and `flux_bootstrap_repo`; `node_distribution` with nodes counted by host; `control_plane_nodes` and `worker_nodes` as lists. Looked for were values in .tfvars, `variable` defaults, `module` calls and `inputs` in .tf and .hcl, and YAML files

    1 problem in other.yaml; nothing was changed.
    "#);
}

#[test]
fn shells_and_manuals() {
    let shell = Shell::with(HOME);
    assert!(shell.ok("completions bash").contains("_talosmith"));
    assert!(shell.ok("man").contains(".TH talosmith 1"));
    shell.ok("man -o pages");
    assert!(shell.path().join("pages/talosmith-import.1").exists());
    assert_eq!(shell.run("completions tcsh").code, Some(64));
}

#[test]
fn every_example_of_another_tool_makes_a_good_file() {
    let shell = Shell::with("");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/fixtures");
    let mut good = 0;
    for example in std::fs::read_dir(examples).unwrap() {
        let name = example.unwrap().file_name().into_string().unwrap();
        let imported = shell.run(&format!("import {examples}/{name} -o {name}.yaml"));
        let ran = shell.run(&format!("validate {name}.yaml"));
        if name == "ancestor-call" {
            // Its own values clash: they are kept, and reported by both.
            assert!(imported.err.contains("TS0406") && ran.err.contains("TS0406"), "{}", ran.all());
            assert_eq!((imported.code, ran.code), (Some(3), Some(3)));
            continue;
        }
        assert_eq!((imported.code, ran.code), (Some(0), Some(0)), "{name}: {}{}", imported.all(), ran.all());
        good += 1;
    }
    assert!(good >= 15, "{good} examples");
}
