//! Stage, services, version, platform, configuration.

use serde_json::{Value, json};

use super::{Resource, View};
use crate::machine::Phase;
use crate::talos_api::encode::delimited;

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let (platform, schematic) = view.image();
    let boot = &view.machine.hardware;
    let maintenance = matches!(view.machine.phase, Phase::Maintenance(_));
    let one = |id: &str, owner, tree| Some(vec![Resource::new(id, owner, tree)]);
    match kind {
        "Versions.runtime.talos.dev" => one(
            "version",
            "runtime.VersionController",
            json!({"name": "Talos", "version": view.machine.talos()}),
        ),
        "MachineStatuses.runtime.talos.dev" => {
            let status = view.machines.status(view.vmid)?;
            one("machine", "runtime.MachineStatusController", status_tree(&status))
        }
        "PlatformMetadatas.talos.dev" => {
            one("platformmetadata", "network.PlatformConfigApplyController", metadata(view, platform))
        }
        "SecurityStates.talos.dev" => one(
            "securitystate",
            "runtime.SecurityStateController",
            if boot.uefi {
                json!({"secureBoot": boot.secure_boot, "bootedWithUKI": true})
            } else {
                json!({"secureBoot": false})
            },
        ),
        "ExtensionStatuses.runtime.talos.dev" => Some(extensions(view, schematic)),
        "KernelCmdlines.runtime.talos.dev" => one(
            "cmdline",
            "runtime.KernelCmdlineController",
            json!({"cmdline": crate::machine::command_line(view.machine)}),
        ),
        "MetaKeys.runtime.talos.dev" => Some(
            view.machine
                .disk
                .meta
                .iter()
                .map(|(key, value)| Resource::new(format!("0x{key:02x}"), "", json!({"value": value})))
                .collect(),
        ),
        "MetaLoads.runtime.talos.dev" => one("meta-loaded", "", json!({"done": true})),
        "MaintenanceServiceRequests.runtime.talos.dev" if maintenance => {
            Some(vec![Resource::both("maintenance", "config.AcquireController", "{}\n".to_owned(), vec![])])
        }
        "APIServiceConfigs.runtime.talos.dev" => one(
            "apid",
            "runtime.APIServiceConfigController",
            json!({
                "listenAddress": ":50000", "nodeRoutingDisabled": maintenance,
                "readonlyRoleMode": maintenance, "skipVerifyingClientCert": maintenance,
            }),
        ),
        "Environments.runtime.talos.dev" => {
            one("machined", "runtime.EnvironmentController", json!({"variables": environment(view)}))
        }
        "UniqueMachineTokens.runtime.talos.dev" => {
            one("unique-machine-token", "runtime.UniqueMachineTokenController", json!({"token": ""}))
        }
        "EtcFileStatuses.files.talos.dev" => {
            let names = [
                "cri/conf.d/01-registries.part",
                "cri/conf.d/cri.toml",
                "hosts",
                "resolv.conf",
                "ssl/certs/ca-certificates.crt",
            ];
            let file =
                |name: &str| Resource::new(name, "files.EtcFileController", json!({"specVersion": "1"}));
            Some(names.map(file).into())
        }
        "BootIDs.runtime.talos.dev" => {
            one("boot-id", "runtime.BootIDController", json!({"bootID": view.machine.boot_id()}))
        }
        "ImageFactorySchematics.runtime.talos.dev" => one(
            "image-factory-schematic",
            "runtime.ImageFactorySchematicController",
            json!({"schematicId": schematic, "flavor": "", "apiUrl": "https://factory.talos.dev"}),
        ),
        "BootedEntries.talos.dev" if boot.uefi => one(
            "booted-entry",
            "runtime.BootedEntryController",
            json!({"bootedEntry": format!("Talos-{}.efi", view.machine.talos())}),
        ),
        "SBOMItems.talos.dev" => Some(components(view)),
        "Services.v1alpha1.talos.dev" => Some(services(view)),
        "ServicePIDs.runtime.talos.dev" => Some(pids(view)),
        "TimeStatuses.v1alpha1.talos.dev" => {
            let synced = view.machines.clock_is_synced(view.vmid);
            one("node", "time.SyncController", json!({"synced": synced, "epoch": 0, "syncDisabled": false}))
        }
        "MachineTypes.config.talos.dev" => {
            let role = view.node().map_or("unknown", |node| node.settings.role.text());
            let number = ["unknown", "init", "controlplane", "worker"].iter().position(|word| *word == role);
            let bytes = number.and_then(|n| u8::try_from(n).ok()).filter(|n| *n > 0).map(|n| vec![0x08, n]);
            Some(vec![Resource::both(
                "machine-type",
                "config.MachineTypeController",
                format!("{role}\n"),
                bytes.unwrap_or_default(),
            )])
        }
        "MachineConfigs.config.talos.dev" => Some(configurations(view)),
        _ => None,
    }
}

/// What the system is made of: the parts that people ask for.
fn components(view: &View<'_>) -> Vec<Resource> {
    let profile = &view.profile;
    let kernel = profile.kernel.trim_end_matches("-talos");
    let parts = [
        ("talos", view.machine.talos().to_owned(), "MPL-2.0"),
        ("containerd", format!("v{}", profile.containerd), "Apache-2.0"),
        ("runc", format!("v{}", profile.runc), "Apache-2.0"),
        ("golang", profile.go.trim_start_matches("go").to_owned(), "BSD-3-Clause"),
        ("kernel", kernel.trim_end_matches(".0").to_owned(), "GPL-2.0-only"),
        ("github.com/siderolabs/go-kubernetes", "v0.2.39".to_owned(), "MPL-2.0"),
    ];
    parts
        .into_iter()
        .map(|(name, version, license)| {
            let tree = json!({"name": name, "version": version, "license": license});
            Resource::new(name, "runtime.SBOMItemController", tree)
        })
        .collect()
}

/// The variables of machined's environment, in order.
fn environment(view: &View<'_>) -> Vec<String> {
    let fixed = [
        "GRPC_ENFORCE_ALPN_ENABLED=false",
        "PATH=/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/cni/bin",
        "TCELL_MINIMIZE=1",
    ];
    let configured = view.node().map(|node| &node.settings.environment).into_iter().flatten();
    let mut all: Vec<String> = configured.map(|(key, value)| format!("{key}={value}")).collect();
    all.extend(fixed.map(str::to_owned));
    all.sort();
    all
}

/// Stage, readiness and what is unmet, as the resource tells it.
pub(in crate::talos_api) fn status_tree(status: &crate::machine::Status) -> Value {
    let unmet: Vec<Value> =
        status.unmet.iter().map(|(name, reason)| json!({"name": name, "reason": reason})).collect();
    json!({"stage": status.stage, "status": {"ready": status.ready, "unmetConditions": unmet}})
}

/// What the platform says of the machine.
pub(super) fn metadata(view: &View<'_>, platform: &str) -> Value {
    let boot = &view.machine.hardware;
    let mut tree = json!({"platform": platform, "hostname": boot.name});
    if !boot.instance_id.is_empty() {
        tree["instanceId"] = boot.instance_id.as_str().into();
    }
    tree
}

/// The extensions in the image, and the one that says which schematic it was built from.
fn extensions(view: &View<'_>, schematic: &str) -> Vec<Resource> {
    let extension = |number: usize, image: String, name: &str, version: &str, author: &str, text: &str| {
        let metadata = json!({
            "name": name, "version": version, "author": author, "description": text,
            "compatibility": {"talos": {"version": ">= 1.0.0"}},
        });
        let tree = json!({"image": image, "metadata": metadata});
        Resource::new(number.to_string(), "runtime.ExtensionStatusController", tree)
    };
    let names = view.machine.extensions();
    let mut found: Vec<Resource> = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let short = name.rsplit('/').next().unwrap_or(name);
            let file = format!("{number:03}.ghcr.io-{}.sqsh", name.replace('/', "-"));
            extension(number, file, short, view.machine.talos(), "Sidero Labs", "A system extension.")
        })
        .collect();
    if !schematic.is_empty() {
        let text = "Virtual extension which specifies the schematic of the image built with Image Factory.";
        let author = "Image Factory (https://factory.talos.dev)";
        found.push(extension(names.len(), "schematic.sqsh".to_owned(), "schematic", schematic, author, text));
    }
    found
}

fn services(view: &View<'_>) -> Vec<Resource> {
    let running = view.machines.services(view.vmid).into_iter().filter(|service| service.state == "Running");
    running
        .map(|service| {
            let (healthy, unknown) = (service.healthy == Some(true), service.healthy.is_none());
            let tree = json!({"running": true, "healthy": healthy, "unknown": unknown});
            Resource::new(service.id, "v1alpha1.ServiceController", tree)
        })
        .collect()
}

fn pids(view: &View<'_>) -> Vec<Resource> {
    let running = view.machines.services(view.vmid).into_iter().filter(|service| service.state == "Running");
    running
        .map(|service| {
            let pid = view.machine.pid(&service.id);
            let space = 4_026_531_832_u64 + u64::from(if pid > 1 { pid } else { 0 });
            let tree = json!({"pid": pid, "mountNamespace": format!("mnt:[{space}]")});
            Resource::new(service.id, "", tree)
        })
        .collect()
}

/// The active configuration and the one on disk, byte for byte.
fn configurations(view: &View<'_>) -> Vec<Resource> {
    let Some(node) = view.node() else { return vec![] };
    let persistent = view.machine.disk.config.as_deref();
    [("v1alpha1", Some(node.config.as_str())), ("persistent", persistent)]
        .into_iter()
        .filter_map(|(id, text)| {
            let text = text?;
            let mut bytes = vec![];
            delimited(1, text.as_bytes(), &mut bytes);
            let yaml = format!("{}\n", Value::from(text));
            Some(Resource::both(id, "", yaml, bytes).annotated("talos.dev/yaml-spec"))
        })
        .collect()
}
