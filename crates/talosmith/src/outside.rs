//! The world that a command works on: the real one that the file names, or the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ambient::{Clock, Net, Random};
use engine::World;
use engine::grounds::{Grounds, Whom};
use engine::secrets::write_private;
use lab::{HostConfig, Lab, LabConfig, PciConfig, StorageConfig, StorageKind};
use model::spec::{DEFAULT_TOKEN, Reference, Spec};
use pve::{Endpoints, Token, Trust};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use talos_client::Roots;

use crate::exit::Exit;
use crate::secret_command::Commands;
use crate::view::Problem;

/// A world, and the lab behind it if it is one. The lab lives as long as this does.
pub struct Outside {
    /// What the engine works on.
    pub world: World,
    /// The secret of the Proxmox token, to be kept out of what is written.
    pub token: SecretString,
    /// What it is called.
    pub name: String,
    /// Keeps the lab's time running.
    _lab: Option<Lab>,
}

/// Who sets Proxmox up.
pub enum Administrator {
    /// With an API token.
    Token(SecretString),
    /// With a password, which is used once.
    Password {
        /// `name@realm`.
        user: String,
        /// The password.
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
            let pve = pve::Client::connect(endpoints, &token(&text)?, &trust, net, clock);
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
            .remedy("name the Proxmox endpoint in it, or unset it"));
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
        .remedy(format!("correct `proxmox.endpoint` in the file, or add it to {ENDPOINT} if it is right")))
}

/// An administrator whose second factor cannot be asked for.
pub fn second_factor_needed(user: &str) -> Problem {
    Problem::new(Exit::Usage, format!("could not log in to Proxmox: {user} needs a second factor"))
        .remedy("run it on a terminal, which asks for the one-time code (TOTP), or pass an API token of the administrator with `--admin-token env:NAME`")
}

fn not_logged_in(error: pve::LoginError) -> Problem {
    match error {
        pve::LoginError::Trust(error) => untrusting(error),
        pve::LoginError::Call(error) => {
            let problem = Problem::of(Exit::World, &error).within("could not log in to Proxmox");
            match (error.kind(), error.remedy()) {
                (pve::Kind::Unauthenticated { .. }, _) => {
                    problem.remedy("check the user, the realm and the password")
                }
                (_, Some(remedy)) => problem.remedy(remedy),
                (_, None) => problem,
            }
        }
    }
}

fn untrusting(error: pve::InvalidTrust) -> Problem {
    Problem::of(Exit::Input, &error).within("could not use what the file says to trust Proxmox by")
}

fn token(text: &SecretString) -> Result<Token, Problem> {
    text.expose_secret().parse().map_err(|e: pve::InvalidToken| {
        Problem::of(Exit::Input, &e)
            .within("could not use the Proxmox token")
            .remedy("check what `proxmox.token` leads to; `talosmith proxmox setup` makes a new one")
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
    let world = World {
        pve,
        net,
        clock,
        random: Random::system(),
        factory_roots,
        found: Default::default(),
        consoles: Default::default(),
    };
    let name = spec.proxmox.endpoint.iter().chain(&spec.proxmox.endpoints).next().cloned();
    Ok(Outside { world, name: name.unwrap_or_default(), token, _lab: None })
}

/// The lab, with hosts, datastores and bridges as the file names them, for a caller with the rights that `proxmox setup` gives.
pub async fn lab(spec: &Spec, folder: &Path, seed: u64) -> Result<Outside, Problem> {
    let clock = lab_clock(folder);
    let lab = open_lab(spec, folder.to_owned(), clock.clone(), seed, lab::ProxmoxVersion::default())?;
    let token = least_token(&lab, &clock, spec, folder).await?;
    reach_lab(lab, clock, &token)
}

/// The lab for its administrator.
pub fn lab_as_root(spec: &Spec, folder: &Path, seed: u64) -> Result<Outside, Problem> {
    let clock = lab_clock(folder);
    let lab = open_lab(spec, folder.to_owned(), clock.clone(), seed, lab::ProxmoxVersion::default())?;
    let token = lab.facts().token;
    reach_lab(lab, clock, &token)
}

fn reach_lab(lab: Lab, clock: Clock, token: &str) -> Result<Outside, Problem> {
    let world = world_of(&lab, clock, token)?;
    Ok(Outside { world, name: "the lab".to_owned(), token: secret_part(token), _lab: Some(lab) })
}

fn world_of(lab: &Lab, clock: Clock, token: &str) -> Result<World, Problem> {
    let facts = lab.facts();
    let internal = |e: &(dyn std::error::Error + 'static)| {
        Problem::of(Exit::Internal, e).within("could not use the lab")
    };
    let address = format!("https://{}", facts.endpoint);
    let endpoints = Endpoints::parse([address.as_str()]).map_err(|e| internal(&e))?;
    let token: Token = token.parse().map_err(|e: pve::InvalidToken| internal(&e))?;
    let trust =
        Trust::Fingerprints(vec![facts.fingerprint.parse().map_err(|e: pve::InvalidTrust| internal(&e))?]);
    let net = lab.net();
    let pve = pve::Client::connect(endpoints, &token, &trust, net.clone(), clock.clone())
        .map_err(|e| internal(&e))?;
    let roots = authorities(&facts.factory_ca_pem, "the lab's factory")?;
    Ok(World {
        pve,
        net,
        random: Random::seeded(u64::try_from(clock.now().as_microsecond()).unwrap_or_default()),
        clock,
        factory_roots: Arc::new(Roots::only(roots)),
        found: Default::default(),
        consoles: Default::default(),
    })
}

/// The token that `proxmox setup` makes for this file, so that a right that it lacks shows in the lab as on a real Proxmox. It is
/// kept beside the world. Where the lab cannot be set up (a host is off, the file does not fit it), the last one stays, or, if
/// there is none, the administrator's: the command itself then says what is wrong.
pub async fn least_token(lab: &Lab, clock: &Clock, spec: &Spec, folder: &Path) -> Result<String, Problem> {
    let path = folder.join("token");
    let known = std::fs::read_to_string(&path).ok().map(|text| text.trim().to_owned());
    let root = lab.facts().token;
    if !model::resolve::needs_proxmox(spec) {
        return Ok(known.unwrap_or(root));
    }
    let world = world_of(lab, clock.clone(), &root)?;
    let whom = Whom {
        user: "talosmith@pve".to_owned(),
        token: "talosmith".to_owned(),
        renew: known.is_none(),
        accounts: true,
    };
    let made = match Grounds::survey(&world, spec, &whom).await {
        Ok(grounds) => grounds.prepare(&world.pve, |_| {}).await.ok().flatten(),
        Err(_) => None,
    };
    lab.forget_calls();
    let Some(made) = made else { return Ok(known.unwrap_or(root)) };
    let made = made.reveal();
    write_private(&path, format!("{}\n", made.expose_secret()).as_bytes(), false)
        .map_err(|e| Problem::of(Exit::World, &e).within(format!("could not write {}", path.display())))?;
    Ok(made.expose_secret().to_owned())
}

/// What stands behind the name of a token.
fn secret_part(token: &str) -> SecretString {
    SecretString::from(token.trim().rsplit('=').next().unwrap_or_default().to_owned())
}

/// The time that certificates are made for: the system's, or that at which the lab in `folder` stands still.
pub fn time(lab: Option<&Path>) -> jiff::Timestamp {
    match lab {
        Some(folder) => Lab::saved_time(folder).unwrap_or_else(LabConfig::first_moment),
        None => Clock::real().now(),
    }
}

/// The lab's time: it stands still between runs, and how fast it goes is decided by the runtime.
fn lab_clock(folder: &Path) -> Clock {
    Clock::from(time(Some(folder)), 1.0)
}

/// Opens the lab of a file.
pub fn open_lab(
    spec: &Spec,
    folder: PathBuf,
    clock: Clock,
    seed: u64,
    proxmox: lab::ProxmoxVersion,
) -> Result<Lab, Problem> {
    let config = LabConfig { proxmox, ..lab_config(spec, folder, seed) };
    Lab::open(config, clock).map_err(|e| {
        let problem = Problem::of(Exit::World, &e).within("could not open the lab");
        match e.hint() {
            Some(hint) => problem.remedy(hint),
            None => problem.remedy("`talosmith lab reset` deletes it and starts over"),
        }
    })
}

fn lab_config(spec: &Spec, folder: PathBuf, seed: u64) -> LabConfig {
    let mut config = LabConfig { folder: Some(folder), seed, ..LabConfig::default() };
    let named = named_hosts(spec);
    if !named.is_empty() {
        let like = |(at, name): (usize, &String)| {
            let number = u8::try_from(at + 1).unwrap_or(u8::MAX);
            HostConfig { name: name.clone(), ..HostConfig::numbered(number) }
        };
        config.hosts = named.iter().enumerate().map(like).collect();
    }
    // The lab must not be the reason why a file does not fit.
    let nodes = model::resolve::resolve(spec, None, None).map(|b| b.nodes).unwrap_or_default();
    let memory = nodes.values().map(|n| n.memory_mib << 20).sum::<u64>();
    let cores = nodes.values().map(|n| n.cores).max().unwrap_or(0);
    let (addresses, named): (Vec<String>, Vec<String>) =
        devices(spec).partition(|device| device.contains(':'));
    let address = |(at, name): (usize, String)| (name, format!("0000:{:02x}:00.0", 0x80 + at % 0x7f));
    config.mappings =
        named.into_iter().collect::<BTreeSet<_>>().into_iter().enumerate().map(address).collect();
    let addresses: BTreeSet<String> =
        addresses.into_iter().map(in_full).chain(config.mappings.values().cloned()).collect();
    for host in &mut config.hosts {
        host.memory_bytes = host.memory_bytes.max(memory + memory / 4);
        host.cpus = host.cpus.max(cores);
        for address in &addresses {
            if !host.pci.iter().any(|known| known.address == *address) {
                host.pci.push(PciConfig::graphics(address));
            }
        }
        let here = || nodes.values().filter(|n| n.host.as_ref().is_none_or(|on| *on == host.name));
        let extra = here().flat_map(|n| n.settings.extra_nics.iter().map(|nic| &nic.bridge));
        for bridge in here().map(|n| &n.bridge).chain(extra) {
            if !host.bridges.contains(bridge) {
                host.bridges.push(bridge.clone());
            }
        }
        for node in here() {
            for store in model::vm::drives(node).into_iter().filter_map(|drive| drive.datastore) {
                offer(&mut host.storages, &store, "images");
            }
        }
        let Some(wanted) = spec.hosts.get(&host.name) else { continue };
        let wanted = &wanted.datastores;
        for (id, content) in
            [(&wanted.image, "import"), (&wanted.disks, "images"), (&wanted.cloudinit, "images")]
        {
            if let Some(id) = id {
                offer(&mut host.storages, id, content);
            }
        }
    }
    config.pools.extend(spec.proxmox.pool.clone());
    if spec.network.dhcp || spec.network.extra.values().any(|extra| extra.dhcp) {
        config.dhcp = spec.network.cidr.parse().ok();
        // An operator keeps the addresses that the file says.
        let expected = nodes.values().filter(|node| node.settings.dhcp);
        config.reservations = expected.map(|node| (node.mac.clone(), node.address.into())).collect();
    }
    config.names = names(spec);
    if let Some(host) = spec.image.factory.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next())
    {
        config.factory_host = host.to_owned();
    }
    let talos = format!("v{}", spec.versions.talos.trim_start_matches('v'));
    if !config.talos_versions.contains(&talos) {
        config.talos_versions.push(talos);
    }
    config
}

/// The endpoint's name leads to the address of the cluster, as an operator's name server would say: the shared one, or that of
/// the first control plane.
fn names(spec: &Spec) -> BTreeMap<String, IpAddr> {
    let Ok(blueprint) = model::resolve::resolve(spec, None, None) else { return BTreeMap::new() };
    let host = blueprint.endpoint.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let first = blueprint.control_planes().next().map(|node| node.address.addr());
    match blueprint.vip.or(first) {
        Some(address) if host.parse::<IpAddr>().is_err() => [(host.to_owned(), address.into())].into(),
        _ => BTreeMap::new(),
    }
}

/// Makes a datastore take a kind of content.
fn offer(storages: &mut Vec<StorageConfig>, id: &str, content: &str) {
    match storages.iter_mut().find(|s| s.id == id) {
        Some(storage) if storage.content.iter().any(|c| c == content) => {}
        Some(storage) => storage.content.push(content.to_owned()),
        None => storages.push(StorageConfig {
            id: id.to_owned(),
            kind: StorageKind::Dir,
            content: vec![content.to_owned()],
            shared: false,
            bytes: 4_000_000_000_000,
        }),
    }
}

/// Devices that the file names, by address or by mapping, so that the lab's hosts have them.
fn devices(spec: &Spec) -> impl Iterator<Item = String> {
    let nodes = spec.nodes.values().filter_map(|node| node.hardware.pci.as_ref());
    let pools = spec.pools.values().filter_map(|pool| pool.hardware.pci.as_ref());
    let sizes = spec.sizes.values().filter_map(|size| size.pci.as_ref());
    nodes.chain(pools).chain(sizes).flatten().map(|device| device.mapping().to_owned())
}

/// An address of a device with its domain.
fn in_full(address: String) -> String {
    if address.len() < 12 { format!("0000:{address}") } else { address }
}

/// Every host that the file names, in order.
fn named_hosts(spec: &Spec) -> Vec<String> {
    let mut names: Vec<String> = spec.hosts.keys().cloned().collect();
    let pools = spec.pools.values().flat_map(|p| p.hosts.iter().cloned());
    names.extend(pools.chain(spec.nodes.values().filter_map(|n| n.host.clone())));
    names.sort();
    names.dedup();
    names
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
            problem(format!("the environment variable {name}, which should hold {what}, is not set")).remedy(
                format!(
                    "`talosmith proxmox setup` creates a token; then export {name}='user@realm!name=secret', or say with `proxmox.token` where the token is"
                ),
            )
        }),
        Reference::File(path) => read(&folder.join(path)).map(SecretString::from).map_err(|problem| {
            problem
                .within(format!("could not get {what}"))
                .remedy("the path is seen from the folder of the cluster file")
        }),
        Reference::Cmd(command) => commands.printed(command, what, Exit::Input),
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not read {}", path.display())))
}

fn authorities(pem: &str, from: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not read the authorities in {from}")))
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

    /// Nothing answers there: whoever is asked for a password before that is known typed it for nothing, or for a stranger.
    #[tokio::test]
    async fn f3_a_password_is_asked_for_only_when_the_server_was_checked() {
        let file = "cluster: home\nversions: { talos: v1.13.9, kubernetes: v1.35.4 }\n\
                    proxmox: { endpoint: 'https://127.0.0.1:1', insecure: true }\n\
                    network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n\
                    pools: { control: { role: controlplane, count: 1 } }\n";
        let loaded = model::load::load(&[model::diagnostic::Source::new("c.yaml", file)]).unwrap();
        let who = || -> Result<Administrator, Problem> { panic!("nobody is asked") };
        let code = |_: &str| -> Result<SecretString, Problem> { panic!("nobody is asked") };
        let ran = administered(&loaded.spec, Path::new("c.yaml"), who, code).await;
        let problem = ran.err().unwrap();
        assert_eq!((problem.exit, problem.causes[0].as_str()), (Exit::World, "could not log in to Proxmox"));
    }

    #[test]
    fn p4_a_second_factor_that_cannot_be_asked_for_leads_to_a_token() {
        let problem = second_factor_needed("root@pam");
        assert!(problem.causes[0].contains("root@pam needs a second factor"), "{problem:?}");
        assert!(problem.remedy.unwrap().contains("--admin-token"));
    }
}
