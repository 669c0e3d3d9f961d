//! The world that a command works on: the real one that the file names, or the lab.

#[cfg_attr(not(feature = "lab"), path = "outside/no_lab.rs")]
mod simulated;

use std::path::Path;
use std::sync::Arc;

use ambient::{Clock, Net, Random};
use engine::Systems;
use model::spec::{DEFAULT_TOKEN, Reference, Spec};
use pve::{Endpoints, Token, Trust};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use talos_client::Roots;

pub use simulated::{lab, lab_as_root};
#[cfg(feature = "lab")]
pub use simulated::{least_token, open_lab};

use crate::exit::Exit;
use crate::secret_command::Commands;
use crate::view::Problem;

/// A world, and the lab behind it if it is one. The lab lives as long as this does.
pub struct Outside {
    /// What the engine works on.
    pub systems: Systems,
    /// The secret of the Proxmox token, to be kept out of what is written.
    pub token: SecretString,
    /// What it is called.
    pub name: String,
    /// Keeps the lab's time running.
    _lab: Option<simulated::Lab>,
}

/// Who sets Proxmox up.
pub enum Administrator {
    /// With an API token.
    Token(SecretString),
    /// With a password, which is used once.
    Password {
        /// `name@realm`.
        user: String,
        password: SecretString,
    },
}

/// The real world that the file names.
pub fn real(spec: &Spec, file: &Path, commands: Commands) -> Result<Outside, Problem> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    if !model::resolve::needs_proxmox(spec) {
        return around(spec, folder, pve::Client::of_nothing(Clock::real()), SecretString::default());
    }
    let (endpoints, trust) = way(spec, folder)?;
    let reference = spec.proxmox.token.as_deref().unwrap_or(DEFAULT_TOKEN);
    // Wherever the token is: who may change the file may also name another file that is here.
    bound(&endpoints, std::env::var(ENDPOINT).ok().as_deref())?;
    let secret = read_reference(reference, folder, "the Proxmox token", commands)?;
    let (net, clock) = (Net::tcp(), Clock::real());
    let pve = pve::Client::connect(endpoints, &token(&secret)?, &trust, net, clock).map_err(untrusting)?;
    around(spec, folder, pve, secret_part(secret.expose_secret()))
}

/// The same world with an administrator's login.
pub async fn administered(
    spec: &Spec,
    file: &Path,
    who: impl FnOnce() -> Result<Administrator, Problem>,
    second_factor: impl FnOnce(&str) -> Result<SecretString, Problem>,
) -> Result<Outside, Problem> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let (endpoints, trust) = way(spec, folder)?;
    bound(&endpoints, std::env::var(ENDPOINT).ok().as_deref())?;
    let (net, clock) = (Net::tcp(), Clock::real());
    // A person types a password only for a server that has proved who it is.
    pve::Client::greet(endpoints.clone(), &trust, net.clone(), clock.clone()).await.map_err(not_logged_in)?;
    let (pve, secret) = match who()? {
        Administrator::Token(text) => {
            let token = token(&text).map_err(|problem| {
                problem.hint(
                    "`--admin-token` must lead to the whole token of an administrator: `USER@REALM!NAME=SECRET`",
                )
            })?;
            let pve = pve::Client::connect(endpoints, &token, &trust, net, clock);
            (pve.map_err(untrusting)?, secret_part(text.expose_secret()))
        }
        Administrator::Password { user, password } => {
            let login = pve::Client::login(endpoints, &user, &password, &trust, net, clock).await;
            let pve = match login.map_err(not_logged_in)? {
                pve::Login::Done(pve) => pve,
                pve::Login::SecondFactor(pending) if pending.takes_totp() => {
                    pending.totp(&second_factor(&user)?).await.map_err(not_logged_in)?
                }
                pve::Login::SecondFactor(_) => return Err(second_factor_needed(&user)),
            };
            (pve, password)
        }
    };
    around(spec, folder, pve, secret)
}

/// Asks a Proxmox without any credentials whether it answers with a certificate that the file trusts.
pub async fn greet(spec: &Spec, file: &Path) -> Result<(), pve::LoginError> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    // What cannot be used of the file is said by the check of it.
    let Ok((endpoints, trust)) = way(spec, folder) else { return Ok(()) };
    pve::Client::greet(endpoints, &trust, Net::tcp(), Clock::real()).await
}

/// Where the environment may say which Proxmox its token is for.
const ENDPOINT: &str = "PROXMOX_VE_ENDPOINT";

/// Refuses endpoints that are not among those that the environment names: who may change the file must not choose who gets
/// the token. `named` is a list with commas or spaces; without one nothing is bound.
fn bound(endpoints: &Endpoints, named: Option<&str>) -> Result<(), Problem> {
    let Some(named) = named else { return Ok(()) };
    // A CI secret that is not set: the variable was meant as a limit.
    if named.trim().is_empty() {
        return Err(Problem::new(Exit::Input, format!("{ENDPOINT} is set and empty; nothing was sent"))
            .hint("name the Proxmox endpoint in it, or unset it"));
    }
    let addresses = named.split([',', ' ']).filter(|text| !text.is_empty());
    let allowed = Endpoints::parse(addresses.map(|text| text.trim_end_matches('/')))
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not use {ENDPOINT}")))?;
    let others = endpoints.not_among(&allowed);
    if others.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the file's Proxmox is {}, and {ENDPOINT} allows only {allowed}; nothing was sent",
        others.join(", ")
    );
    Err(Problem::new(Exit::Input, text)
        .hint(format!("correct `proxmox.endpoint` in the file, or add it to {ENDPOINT} if it is right")))
}

/// An administrator whose second factor cannot be asked for.
pub fn second_factor_needed(user: &str) -> Problem {
    Problem::new(Exit::Usage, format!("could not log in to Proxmox: {user} needs a second factor"))
        .hint("run it on a terminal, which asks for the one-time code (TOTP), or pass an API token of the administrator with `--admin-token env:NAME`")
}

fn not_logged_in(error: pve::LoginError) -> Problem {
    match error {
        pve::LoginError::Trust(error) => untrusting(error),
        pve::LoginError::Call(error) => {
            let rejected = matches!(error.kind(), pve::Kind::Unauthenticated { .. });
            let exit = if rejected { Exit::Input } else { Exit::Systems };
            let problem = Problem::of(exit, &error).within("could not log in to Proxmox");
            match (error.kind(), error.hint()) {
                (pve::Kind::Unauthenticated { .. }, _) => {
                    problem.hint("check the user, the realm and the password")
                }
                (_, Some(hint)) => problem.hint(hint),
                (_, None) => problem,
            }
        }
    }
}

fn untrusting(error: pve::InvalidTrust) -> Problem {
    Problem::of(Exit::Input, &error).within("could not use the certificate settings of `proxmox` in the file")
}

fn token(text: &SecretString) -> Result<Token, Problem> {
    text.expose_secret().parse().map_err(|e: pve::InvalidToken| {
        Problem::of(Exit::Input, &e)
            .within("could not use the Proxmox token")
            .hint("check what `proxmox.token` leads to; `talosmith proxmox setup --renew` creates a new one")
    })
}

/// The addresses of Proxmox, and how its certificate is judged.
fn way(spec: &Spec, folder: &Path) -> Result<(Endpoints, Trust), Problem> {
    let addresses = spec.proxmox.endpoint.iter().chain(&spec.proxmox.endpoints).map(String::as_str);
    let endpoints = Endpoints::parse(addresses)
        .map_err(|e| Problem::of(Exit::Input, &e).within("could not use the Proxmox endpoints"))?;
    let trust = if spec.proxmox.insecure {
        Trust::Insecure
    } else if spec.proxmox.is_pinned() {
        let pins = spec.proxmox.pins().map(str::parse).collect::<Result<_, pve::InvalidTrust>>();
        Trust::Fingerprints(pins.map_err(|e| Problem::of(Exit::Input, &e))?)
    } else if let Some(path) = &spec.proxmox.ca {
        Trust::Authority(read(&folder.join(path))?)
    } else {
        Trust::System(system_roots())
    };
    Ok((endpoints, trust))
}

/// Everything else of the real world, around a client.
fn around(spec: &Spec, folder: &Path, pve: pve::Client, token: SecretString) -> Result<Outside, Problem> {
    let (net, clock) = (Net::tcp(), Clock::real());
    let own = match &spec.image.ca {
        Some(path) => authorities(&read(&folder.join(path))?, path)?,
        None => Vec::new(),
    };
    let factory_roots = Arc::new(Roots::and_of_system(own, system_roots));
    let systems = Systems {
        pve,
        net,
        clock,
        random: Random::system(),
        factory_roots,
        found: Default::default(),
        consoles: Default::default(),
    };
    let name = spec.proxmox.endpoint.iter().chain(&spec.proxmox.endpoints).next().cloned();
    Ok(Outside { systems, name: name.unwrap_or_default(), token, _lab: None })
}

/// What stands behind the name of a token.
fn secret_part(token: &str) -> SecretString {
    SecretString::from(token.trim().rsplit('=').next().unwrap_or_default().to_owned())
}

/// The time that certificates are made for: the system's, or that at which the lab in `folder` stands still.
pub fn time(lab: Option<&Path>) -> jiff::Timestamp {
    lab.map_or_else(|| Clock::real().now(), simulated::time)
}

/// Reads a secret from where the file says it is.
pub fn read_reference(
    text: &str,
    folder: &Path,
    what: &str,
    commands: Commands,
) -> Result<SecretString, Problem> {
    let reference: Reference =
        text.parse().map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not read {what}")))?;
    let problem = |what: String| Problem::new(Exit::Input, what);
    match &reference {
        Reference::Env(name) => std::env::var(name).map(SecretString::from).map_err(|_| {
            problem(format!("the environment variable {name}, which should hold {what}, is not set")).hint(
                format!(
                    "`talosmith proxmox setup` creates a token; then export {name}='user@realm!name=secret', or say with `proxmox.token` where the token is"
                ),
            )
        }),
        Reference::File(path) => read(&folder.join(path)).map(SecretString::from).map_err(|problem| {
            problem
                .within(format!("could not get {what}"))
                .hint("the path is relative to the folder of the cluster file")
        }),
        Reference::Cmd(command) => commands.printed(command, what, Exit::Input),
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not read {}", path.display())))
}

fn authorities(pem: &str, from: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|e| {
        Problem::of(Exit::Input, &e).within(format!("could not read the certificate authorities in {from}"))
    })
}

/// The authorities that this machine trusts. One that cannot be read is left out: others may do.
fn system_roots() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a13_a_token_goes_only_where_the_environment_allows() {
        let file = Endpoints::parse(["https://PVE1:8006", "https://pve2:8006"]).unwrap();
        assert!(bound(&file, None).is_ok());
        assert!(bound(&file, Some(" ")).is_err(), "a variable that is set and empty is no permission");
        assert!(bound(&file, Some("https://pve1:8006/,https://pve2:8006, https://pve3:8006")).is_ok());
        let refused = bound(&file, Some("https://pve1:8006")).unwrap_err();
        assert_eq!(refused.exit, Exit::Input);
        assert!(refused.causes[0].contains("is https://pve2:8006, and PROXMOX_VE_ENDPOINT"), "{refused:?}");
        assert!(bound(&file, Some("http://pve1")).is_err(), "what cannot be read allows nothing");
    }

    /// Nothing answers there: a password that is typed before that is known is typed for nothing, or for a foreign machine.
    #[tokio::test]
    async fn f3_a_password_is_asked_for_only_when_the_server_was_checked() {
        let file = "cluster: home\nversions: { talos: v1.13.9, kubernetes: v1.35.4 }\n\
                    proxmox: { endpoint: 'https://127.0.0.1:1', insecure: true }\n\
                    network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n\
                    pools: { control: { role: controlplane, count: 1 } }\n";
        let loaded = model::load::load(&[model::diagnostic::Source::new("c.yaml", file)]).unwrap();
        let who = || -> Result<Administrator, Problem> { panic!("no question is asked") };
        let code = |_: &str| -> Result<SecretString, Problem> { panic!("no question is asked") };
        let ran = administered(&loaded.spec, Path::new("c.yaml"), who, code).await;
        let problem = ran.err().unwrap();
        assert_eq!(
            (problem.exit, problem.causes[0].as_str()),
            (Exit::Systems, "could not log in to Proxmox")
        );
    }

    #[test]
    fn p4_a_second_factor_that_cannot_be_asked_for_leads_to_a_token() {
        let problem = second_factor_needed("root@pam");
        assert!(problem.causes[0].contains("root@pam needs a second factor"), "{problem:?}");
        assert!(problem.hint.unwrap().contains("--admin-token"));
    }
}
