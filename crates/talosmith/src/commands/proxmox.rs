//! `proxmox setup`: with an administrator's login, used once and kept nowhere, Proxmox is made ready for a cluster.

use engine::secrets::write_private;
use engine::setup::{SetupPlan, Unsurveyed, Whom};
use model::diagnostic::{Source, codes};
use model::load::{Loaded, load};
use secrecy::{ExposeSecret, SecretString};

use super::setup::{Setup, Wrong, confirm, ended, flags};
use crate::args::{Global, SetupArgs};
use crate::exit::Exit;
use crate::outside::{self, Administrator, Outside};
use crate::secret_command::Commands;
use crate::terminal::{Untyped, restore_at_signal, secret_line};
use crate::view::{Printer, Problem};

/// Where the administrator's password may stand.
const PASSWORD: &str = "TALOSMITH_ADMIN_PASSWORD";

/// Makes Proxmox ready.
pub async fn setup(global: &Global, args: &SetupArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_setup(global, args, printer).await)
}

async fn try_setup(global: &Global, args: &SetupArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let loaded = load_for_setup(global, printer)?;
    let setup = Setup::of(global, loaded);
    if let Some(path) = args.output.as_ref().filter(|path| path.exists() && !args.renew) {
        return Err(Problem::new(Exit::Usage, format!("{} exists already", path.display()))
            .hint("give another file, or `--renew` to replace the token and the file")
            .into());
    }
    if setup.lab.is_none() && !can_log_in(args) {
        return Err(nobody_to_ask(&args.admin).into());
    }
    let login = || administrator(args, setup.commands);
    let outside = setup.administered(global, login, ask_code).await?;
    let whom = Whom {
        user: args.user.clone(),
        token: args.token.clone().unwrap_or_else(|| token_of(&setup.loaded.spec.cluster)),
        renew: args.renew,
        accounts: args.accounts,
        maintenance: args.maintenance,
    };
    if args.remove {
        return remove(&outside, &setup, &whom, args.yes, printer).await;
    }
    let setup_plan =
        SetupPlan::survey(&outside.systems, &setup.loaded.spec, &whom).await.map_err(|e| match e {
            Unsurveyed::Engine(error) => Wrong::Problem(Problem::from(&error)),
            Unsurveyed::File(found) => {
                printer.diagnostics(&setup.loaded.sources, &setup.loaded.locate(found));
                Wrong::Shown
            }
        })?;
    if let Some(path) = args.output.as_ref().filter(|_| setup_plan.token_kept) {
        let token = format!("{}!{}", whom.user, whom.token);
        let why = format!(
            "could not write {}: the token {token} exists already, and Proxmox shows its secret only once; nothing was changed",
            path.display()
        );
        return Err(Problem::new(Exit::Usage, why)
            .hint("pass `--renew` to replace the token, after which the old secret is of no use; or leave out `-o` to keep it")
            .into());
    }
    if setup_plan.tasks.is_empty() {
        printer.say("No changes. Proxmox is ready for this cluster.");
    } else {
        let listed: Vec<String> = setup_plan.tasks.iter().map(|task| format!("  - {task}")).collect();
        printer.note(&format!("Changes on {}:\n\n{}\n", outside.name, listed.join("\n")));
        if !args.yes && !confirm(printer, "Nothing else is changed. Continue?")? {
            printer.note("Nothing was changed.");
            return Ok(Exit::Declined);
        }
        let prepared =
            setup_plan.prepare(&outside.systems.pve, |task| printer.note(&format!("done: {task}"))).await;
        let token = prepared.map_err(|error| Problem::from(&error))?;
        if let Some(token) = token {
            hand_over(&token.reveal(), args, printer)?;
        } else {
            printer.say("Proxmox is ready for this cluster.");
        }
    }
    if printer.is_json() && setup_plan.tasks.is_empty() {
        printer.data(&serde_json::json!({"token": null, "changed": false}));
    }
    if setup_plan.token_kept {
        printer.note(&format!(
            "The token {}!{} already exists. Proxmox shows its secret only once; `--renew` creates a new one.",
            whom.user, whom.token
        ));
    }
    for (address, name) in &setup_plan.names {
        printer.note(&format!("In the file, write `{name}` in place of the address `{address}`."));
    }
    printer.note(&format!(
        "Next: `talosmith doctor{}` checks with that token that nothing is missing.",
        flags(global)
    ));
    Ok(Exit::Done)
}

/// The name of a cluster's token. One token for two clusters would have the rights of both, and be gone for both when it is replaced.
/// Proxmox wants a letter first, and two characters at least.
fn token_of(cluster: &str) -> String {
    match cluster.starts_with(|first: char| first.is_ascii_alphabetic()) && cluster.len() > 1 {
        true => cluster.to_owned(),
        false => format!("talosmith-{cluster}"),
    }
}

/// Takes away what was set up for this cluster.
async fn remove(
    outside: &Outside,
    setup: &Setup,
    whom: &Whom,
    yes: bool,
    printer: &Printer,
) -> Result<Exit, Wrong> {
    let setup_plan = SetupPlan::to_remove(&outside.systems, &setup.loaded.spec, whom).await;
    let setup_plan = setup_plan.map_err(|error| Problem::from(&error))?;
    let changed = !setup_plan.tasks.is_empty();
    if changed {
        let listed: Vec<String> = setup_plan.tasks.iter().map(|task| format!("  - {task}")).collect();
        printer.note(&format!("Changes on {}:\n\n{}\n", outside.name, listed.join("\n")));
        if let Some(warning) = vms_left(outside, &setup.loaded.spec.cluster).await {
            printer.note(&format!("warning: {warning}\n"));
        }
        let text = "The token of this cluster cannot change anything after that. Continue?";
        if !yes && !confirm(printer, text)? {
            printer.note("Nothing was changed.");
            return Ok(Exit::Declined);
        }
        let done =
            setup_plan.prepare(&outside.systems.pve, |task| printer.note(&format!("done: {task}"))).await;
        done.map_err(|error| Problem::from(&error))?;
        printer.say("Removed what was set up for this cluster.");
    } else {
        printer.say("Proxmox has nothing that was set up for this cluster alone.");
    }
    if setup_plan.token_kept {
        printer.note(&format!("The token {}!{} has other rights and stays.", whom.user, whom.token));
    }
    if printer.is_json() {
        printer.data(&serde_json::json!({"token": null, "changed": changed}));
    }
    Ok(Exit::Done)
}

/// What is said of VMs that the token could not delete any more.
async fn vms_left(outside: &Outside, cluster: &str) -> Option<String> {
    let (left, verb) = match engine::setup::count_vms(&outside.systems, cluster).await {
        Ok(0) => return None,
        Ok(1) => (format!("1 VM of {cluster}"), "exists"),
        Ok(count) => (format!("{count} VMs of {cluster}"), "exist"),
        Err(error) => {
            return Some(format!(
                "could not check whether VMs of {cluster} exist: {}",
                error.causes().join(": ")
            ));
        }
    };
    Some(format!(
        "{left} still {verb}, and Talosmith cannot change or delete them without the token. To delete the cluster, run \
         `talosmith destroy` first."
    ))
}

/// Tells the token, this once.
fn hand_over(token: &SecretString, args: &SetupArgs, printer: &Printer) -> Result<(), Problem> {
    if let Some(path) = &args.output {
        write_private(path, format!("{}\n", token.expose_secret()).as_bytes(), false).map_err(|e| {
            // The token must not be lost because a disk is full.
            printer.verbatim(&format!("{}\n", token.expose_secret()));
            Problem::of(Exit::Systems, &e)
                .within(format!("could not write {}", path.display()))
                .hint("the token was printed instead; it is shown only once")
        })?;
        if printer.is_json() {
            printer.data(&serde_json::json!({"token": null, "file": path, "changed": true}));
        }
        printer.say(&format!(
            "The token is in {}, readable by you only. In the file: `proxmox: {{ token: 'file:{}' }}`.",
            path.display(),
            path.display()
        ));
        return Ok(());
    }
    if printer.is_json() {
        printer.data(&serde_json::json!({"token": token.expose_secret(), "changed": true}));
    } else {
        printer.note("This is the token. It is shown only once:");
        printer.verbatim(&format!("{}\n", token.expose_secret()));
        printer.note(
            "Keep it where `proxmox.token` of the file says; without that: export PROXMOX_VE_API_TOKEN='…'.",
        );
    }
    Ok(())
}

/// The file, in which addresses of devices are allowed: naming them is what this command is for.
fn load_for_setup(global: &Global, printer: &Printer) -> Result<Loaded, Wrong> {
    let mut sources = vec![];
    for path in &global.files {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Problem::of(Exit::Input, &e).within(format!("could not read the cluster file {}", path.display()))
        })?;
        sources.push(Source::new(path.display().to_string(), text));
    }
    let loaded = load(&sources).map_err(|failed| {
        printer.diagnostics(&failed.sources, &failed.diagnostics);
        Wrong::Shown
    })?;
    let found = loaded.check();
    let wrong: Vec<_> = found.into_iter().filter(|d| d.is_error() && d.code != codes::PCI_ADDRESS).collect();
    if wrong.is_empty() {
        return Ok(loaded);
    }
    printer.diagnostics(&loaded.sources, &wrong);
    Err(Wrong::Shown)
}

/// The administrator's login: a token from where the arguments say, or a password from the environment, from the pipe, or
/// asked for without showing it.
fn administrator(args: &SetupArgs, commands: Commands) -> Result<Administrator, Problem> {
    if let Some(reference) = &args.admin_token {
        let here = std::path::Path::new(".");
        return outside::read_reference(reference, here, "the administrator's token", commands)
            .map(Administrator::Token)
            .map_err(|problem| problem.hint("`--admin-token` takes the place of an API token of an administrator that exists already, such as \
                 root@pam: `env:NAME`, `file:PATH` or `cmd:COMMAND`. Datacenter, Permissions, API Tokens in the web interface creates one; without \
                 one, leave the option out and Talosmith asks for the password"));
    }
    let user = args.admin.clone();
    let password = if args.password_stdin {
        let mut line = String::new();
        std::io::stdin()
            .read_line(&mut line)
            .map_err(|e| Problem::of(Exit::Usage, &e).within("could not read the password"))?;
        SecretString::from(line.trim_end_matches(['\r', '\n']).to_owned())
    } else if let Ok(password) = std::env::var(PASSWORD) {
        SecretString::from(password)
    } else {
        ask(&user)?
    };
    Ok(Administrator::Password { user, password })
}

fn ask(user: &str) -> Result<SecretString, Problem> {
    restore_at_signal();
    secret_line(&format!("Password of {user}: ")).map_err(|why| match why {
        Untyped::Interrupted => {
            Problem::new(Exit::Interrupted, format!("stopped at the password of {user}; nothing was changed"))
        }
        Untyped::NoTerminal => nobody_to_ask(user),
    })
}

fn nobody_to_ask(user: &str) -> Problem {
    Problem::new(Exit::Usage, format!("the password of {user} is needed, and stdin is not a terminal")).hint(
        format!("set {PASSWORD}, pipe it in with `--password-stdin`, or name a token with `--admin-token env:NAME`"),
    )
}

/// Whether there is a login, or a terminal to ask for it. Known before Proxmox is asked anything.
fn can_log_in(args: &SetupArgs) -> bool {
    args.admin_token.is_some()
        || args.password_stdin
        || std::env::var_os(PASSWORD).is_some()
        || console::Term::stderr().is_term()
}

/// The one-time code of an administrator who logs in with a second factor.
fn ask_code(user: &str) -> Result<SecretString, Problem> {
    let terminal = console::Term::stderr();
    if !terminal.is_term() {
        return Err(outside::second_factor_needed(user));
    }
    let asked =
        terminal.write_str(&format!("One-time code (TOTP) of {user}: ")).and_then(|()| terminal.read_line());
    asked
        .map(|code| SecretString::from(code.trim().to_owned()))
        .map_err(|_| outside::second_factor_needed(user))
}
