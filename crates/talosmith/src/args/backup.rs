//! Options of `backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples;

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Make a backup: a snapshot of etcd and a copy of the secrets bundle, both encrypted, and read it back.
    #[command(after_help = examples::BACKUP_CREATE)]
    Create,
    /// List the backups, the newest first.
    #[command(after_help = examples::BACKUP_LIST)]
    List,
    /// Write the snapshot of a backup to a file, unencrypted, for `talosctl bootstrap --recover-from`.
    #[command(after_help = examples::BACKUP_GET)]
    Get(GetArgs),
    /// Read backups to their end: decrypt, decompress, and compare them with their checksums and cards.
    #[command(after_help = examples::BACKUP_VERIFY)]
    Verify(VerifyArgs),
    /// Delete backups of this cluster that `backup.keep` of the file does not keep. The newest verified backup is never deleted.
    #[command(after_help = examples::BACKUP_PRUNE)]
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// The backup: its file name, its time, or `latest`.
    #[arg(value_name = "BACKUP", default_value = "latest")]
    pub backup: String,
    /// The file to write, readable by you only. It must not exist.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The backups: file names, times, or `latest`. Default: the newest one.
    #[arg(value_name = "BACKUP")]
    pub backups: Vec<String>,
    /// Verify all of them.
    #[arg(long, conflicts_with = "backups")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
}
