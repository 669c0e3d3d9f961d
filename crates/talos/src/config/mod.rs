//! Machine configuration: generating it for each contract, adding what is special to a node, reading it back.
//!
//! [`generate`] gives what `talosctl gen config` gives for the same secrets and options (golden files prove it),
//! [`apply_machine`] adds name, network and whatever else is asked for of one machine, [`apply_cluster`] what is the same for
//! all of them, and [`MachineView`] is what a node makes of a configuration. Everything works on [`Documents`], an ordered list
//! of mappings, so that nothing which this crate does not know is ever lost.

mod cluster;
mod difference;
mod documents;
mod generate;
mod images;
mod input;
mod kinds;
mod kubernetes;
mod machine;
mod order;
mod redact;
mod settings;
mod shown;
mod v1alpha1;
mod view;

pub use cluster::apply_cluster;
pub use difference::{Change, ConfigCost, difference};
pub use documents::{Documents, DocumentsError};
pub use generate::{GenerateError, generate};
pub use images::{
    KubernetesArguments, KubernetesImage, kubernetes_arguments, kubernetes_tags, set_kubernetes_tag,
};
pub use input::{Cni, ExtraMount, Input, Role};
pub use kinds::{UnknownKind, all_kinds, known_since, unknown_kinds};
pub use machine::apply_machine;
pub use settings::{
    ClusterSettings, DiskId, KernelModule, MachineSettings, Mirror, NVIDIA_MODULES, Nic, Oidc, REGION_LABEL,
    Route, UserVolume, ZONE_LABEL,
};
pub use shown::Difference;
pub use view::{AuthorityView, MachineView, Problem};

// What this module's functions take and give.
pub use crate::contract::{Contract, ContractError, NEWEST, OLDEST};
pub use crate::yaml::{Map, Value, YamlError};
