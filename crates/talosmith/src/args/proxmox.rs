//! Options of `proxmox setup`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The administrator. The password is taken from TALOSMITH_ADMIN_PASSWORD, or asked for.
    #[arg(long, value_name = "USER@REALM", default_value = "root@pam")]
    pub admin: String,
    /// Read the administrator's password from stdin.
    #[arg(long, conflicts_with = "admin_token")]
    pub password_stdin: bool,
    /// Use this token instead of a password: `env:NAME`, `file:PATH` or `cmd:COMMAND`.
    #[arg(long, value_name = "REFERENCE")]
    pub admin_token: Option<String>,
    /// The user that is created for Talosmith.
    #[arg(long, value_name = "USER@REALM", default_value = "talosmith@pve")]
    pub user: String,
    /// The name of its token. Default: the name of the cluster, so that each cluster has a token of its own.
    #[arg(long, value_name = "NAME")]
    pub token: Option<String>,
    /// Write the token to this file, readable by you only, instead of to the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing token.
    #[arg(long)]
    pub renew: bool,
    /// Remove what was set up for this cluster alone: its roles, the privileges that they grant, and its token.
    #[arg(long, conflicts_with_all = ["renew", "output", "accounts", "maintenance"])]
    pub remove: bool,
    /// Let the token create the accounts of cloud provider and storage driver, too. This takes Permissions.Modify on /, which
    /// equals an administrator.
    #[arg(long)]
    pub accounts: bool,
    /// Let the token move VMs between hosts (VM.Migrate), for `host drain`. Without it, only if the file says which hosts nodes are on.
    #[arg(long)]
    pub maintenance: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
}
