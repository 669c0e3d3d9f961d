//! Options of the commands that make, read or show a file.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The file as a plain argument, for commands that are mostly typed by hand.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The cluster file, or a folder of such files; the same as `-f`. Several are merged key by key.
    #[arg(value_name = "FILE", conflicts_with = "files", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

/// What a new file says.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Name of the cluster.
    #[arg(long, value_name = "NAME", default_value = "home")]
    pub cluster: String,
    /// Proxmox: `https://HOST:8006`. With a token, Talosmith fills in its hosts, datastores and bridges.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub endpoint: Option<String>,
    /// Where the token is: `env:NAME`, `file:PATH` or `cmd:COMMAND`. Default: `env:PROXMOX_VE_API_TOKEN`.
    #[arg(long, value_name = "REFERENCE")]
    pub token: Option<String>,
    /// SHA-256 fingerprint of Proxmox' certificate.
    #[arg(long, value_name = "AA:BB:…", conflicts_with_all = ["ca", "insecure"])]
    pub fingerprint: Option<String>,
    /// File with the authority that signed Proxmox' certificate, seen from the new file.
    #[arg(long, value_name = "PATH", conflicts_with = "insecure", value_hint = ValueHint::FilePath)]
    pub ca: Option<String>,
    /// Do not verify Proxmox' certificate, now and in the file.
    #[arg(long)]
    pub insecure: bool,
    /// Do not ask Proxmox for anything.
    #[arg(long)]
    pub offline: bool,
    /// The nodes' network.
    #[arg(long, value_name = "NETWORK", default_value = "10.25.150.0/24")]
    pub cidr: String,
    /// Its gateway. Default: the first address.
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Option<String>,
    /// The address of the Kubernetes API, which moves between control plane nodes. Default: the tenth address.
    #[arg(long, value_name = "ADDRESS")]
    pub vip: Option<String>,
    /// How many control plane nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub control_planes: u32,
    /// How many workers.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub workers: u32,
    /// Talos version.
    #[arg(long, value_name = "VERSION", default_value = model::starter::TALOS)]
    pub talos: String,
    /// Kubernetes version.
    #[arg(long, value_name = "VERSION", default_value = model::starter::KUBERNETES)]
    pub kubernetes: String,
    /// Print the file instead of writing it.
    #[arg(long)]
    pub print: bool,
    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,
}

/// What to import, and where to.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A folder of OpenTofu, Terraform or Terragrunt files, or single files: `.tf`, `.tfvars`, `.hcl`, `.yaml`.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Write the cluster file here instead of to the terminal.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,
}

/// Which manual pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write the pages of all commands into this folder, instead of the main one to the terminal.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}
