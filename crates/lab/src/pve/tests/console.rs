//! The serial console, as a client of a real host was seen to meet it.

use std::time::Duration;

use ambient::tls::{Connector, TlsIo};
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::Client;
use super::lab;
use crate::machine::printed_fingerprint;
use crate::{CallFilter, ConsoleFault, Injection, Lab, ServeOptions, When};

const VM: &str = "/nodes/pve1/qemu/100";
const STARTING: &str = "starting serial terminal on interface serial0\r\n";

/// One open WebSocket.
struct Terminal {
    io: TokioIo<TlsIo>,
    received: Vec<u8>,
}

impl Terminal {
    /// Asks for the WebSocket of a console; nothing when the connection ends without an answer.
    async fn connect(client: &Client, (host, port): (&str, u16), query: &str) -> Option<(u16, Self)> {
        let connector = Connector::new(client.net.clone(), client.tls.clone(), port);
        let mut io = TokioIo::new(connector.connect(host, port).await.unwrap());
        let request = format!(
            "GET /api2/json{VM}/vncwebsocket?{query} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            client.authorization
        );
        io.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(status == 101, head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        Some((status, Self { io, received: vec![] }))
    }

    async fn send(&mut self, payload: &[u8]) {
        let mask = [9, 8, 7, 6];
        let mut frame = vec![0x82, 0x80 | 126];
        frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.io.write_all(&frame).await.unwrap();
    }

    /// The next frame; nothing when the connection has ended.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        assert_eq!(self.io.read_u8().await.ok()?, 0x82);
        let length = match self.io.read_u8().await.ok()? {
            126 => usize::from(self.io.read_u16().await.ok()?),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.io.read_exact(&mut payload).await.ok()?;
        Some(payload)
    }

    /// Says who it is, and waits for the port's first words.
    async fn greet(&mut self, opened: &Value) -> String {
        let line = format!("{}:{}\n", text(opened, "user"), text(opened, "ticket"));
        self.send(line.as_bytes()).await;
        assert_eq!(self.frame().await.unwrap(), b"OK");
        String::from_utf8(self.frame().await.unwrap()).unwrap()
    }

    /// What arrives within so many seconds, and whether the connection is still open then.
    async fn listen(&mut self, client: &Client, seconds: u64) -> (String, bool) {
        let all = async {
            while let Some(frame) = self.frame().await {
                self.received.extend(frame);
            }
        };
        let open = client.clock.timeout(Duration::from_secs(seconds), all).await.is_err();
        (String::from_utf8(std::mem::take(&mut self.received)).unwrap(), open)
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is text in {value}"))
}

fn query(opened: &Value) -> String {
    let ticket: String = text(opened, "ticket").bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("port={}&vncticket={ticket}", text(opened, "port"))
}

async fn open(client: &Client) -> Value {
    client.call("POST", &format!("{VM}/termproxy"), json!({"serial": "serial0"})).await.data()
}

async fn connected(client: &Client, opened: &Value) -> Terminal {
    let (status, terminal) = Terminal::connect(client, ("pve1", 8006), &query(opened)).await.unwrap();
    assert_eq!(status, 101);
    terminal
}

/// A machine of Talos in VM 100, and whether it was started.
async fn world(start: bool) -> (Lab, Client) {
    let (lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    if start {
        assert_eq!(client.done("POST", &format!("{VM}/status/start"), json!({})).await, "OK");
    }
    (lab, client)
}

async fn is_running(client: &Client, opened: &Value) -> bool {
    let status = client.get(&format!("/nodes/pve1/tasks/{}/status", text(opened, "upid"))).await;
    status["status"] == "running"
}

/// The fingerprint of what the maintenance API shows.
async fn shown(client: &Client) -> String {
    let connector = Connector::new(client.net.clone(), crate::talos_api::tests::tls(None).into(), 50_000);
    let stream = connector.connect("10.25.150.11", 50_000).await.unwrap();
    let certificate = CertificateDer::from(stream.peer_certificate().unwrap().to_vec());
    let parsed = rustls::server::ParsedCertificate::try_from(&certificate).unwrap();
    crate::machine::tls::fingerprint(&parsed.subject_public_key_info())
}

fn fingerprints(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(printed_fingerprint).collect()
}

#[tokio::test(start_paused = true)]
async fn a_boot_is_printed_in_order_and_the_last_certificate_is_the_one_that_is_shown() {
    let (_lab, client) = world(true).await;
    let opened = open(&client).await;
    assert_eq!((text(&opened, "port"), text(&opened, "user")), ("5900", "root@pam!talosmith"));
    assert!(text(&opened, "upid").ends_with(":vncproxy:100:root@pam!talosmith:"), "{opened}");
    let ticket = text(&opened, "ticket");
    assert!(ticket.starts_with("PVEVNC:") && (340..=380).contains(&ticket.len()), "{ticket}");
    let mut terminal = connected(&client, &opened).await;
    assert_eq!(terminal.greet(&opened).await, STARTING);
    terminal.send(b"2").await;
    let (printed, open) = terminal.listen(&client, 60).await;
    assert!(open && is_running(&client, &opened).await);
    let place = |words: &str| printed.find(words).unwrap_or_else(|| panic!("{words} in {printed}"));
    let order = ["Linux version", "[initramfs] booting Talos v1.13.9", "initialize sequence: 5 phase(s)"];
    let order = order.map(place);
    assert!(order.is_sorted() && order[2] < place("assigned address"), "{printed}");
    assert!(place("assigned address") < place("server certificate issued"), "{printed}");
    assert!(printed.lines().all(|line| line.starts_with('[')) && printed.ends_with("\r\n"));
    assert_eq!(fingerprints(&printed).last().copied(), Some(shown(&client).await.as_str()));
    drop(terminal);
    client.clock.sleep(Duration::from_secs(1)).await;
    assert!(!is_running(&client, &opened).await);
}

#[tokio::test(start_paused = true)]
async fn what_was_printed_before_is_lost_and_every_new_certificate_is_printed() {
    let (lab, client) = world(true).await;
    client.clock.sleep(Duration::from_secs(60)).await;
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    assert_eq!(terminal.greet(&opened).await, STARTING);
    assert_eq!(terminal.listen(&client, 60).await, (String::new(), true));
    let before = shown(&client).await;
    lab.inject(Injection::Reissue { vmid: 100, connections: 1 });
    let after = shown(&client).await;
    assert_ne!(before, after);
    let (printed, _) = terminal.listen(&client, 5).await;
    assert_eq!(fingerprints(&printed), [after.as_str()]);
    assert_eq!(shown(&client).await, after, "once only");
    // Half a day later it issues another by itself.
    client.clock.sleep(Duration::from_secs(13 * 3600)).await;
    let (printed, _) = terminal.listen(&client, 5).await;
    assert_eq!(fingerprints(&printed), [shown(&client).await.as_str()]);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_restarts_is_heard_by_who_is_connected() {
    let (_lab, client) = world(true).await;
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    terminal.greet(&opened).await;
    let (first, _) = terminal.listen(&client, 60).await;
    assert_eq!(client.done("POST", &format!("{VM}/status/reset"), json!({})).await, "OK");
    let (second, _) = terminal.listen(&client, 60).await;
    assert!(second.contains("Linux version"), "{second}");
    assert_ne!(fingerprints(&first).last(), fingerprints(&second).last());
    assert_eq!(fingerprints(&second).last().copied(), Some(shown(&client).await.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_system_that_does_not_come_up_panics_for_ever() {
    let (lab, client) = world(false).await;
    lab.inject(Injection::BrokenSystem { vmid: 100, talos: "v1.13.9".to_owned(), broken: true });
    client.done("POST", &format!("{VM}/status/start"), json!({})).await;
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    terminal.greet(&opened).await;
    let (printed, _) = terminal.listen(&client, 150).await;
    assert!(printed.matches("Kernel panic").count() >= 3, "{printed}");
    assert!(printed.matches("Linux version").count() >= 3, "{printed}");
    assert_eq!(fingerprints(&printed), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_there_is_no_console() {
    let (_lab, mut client) = world(false).await;
    let write = async |method: &str, path: &str, body: Value| client.call(method, path, body).await.data();
    write("POST", "/access/users", json!({"userid": "eva@pve"})).await;
    let token = write("POST", "/access/users/eva@pve/token/test", json!({"privsep": 1})).await;
    let grant = json!({"path": "/vms/100", "roles": "PVEVMUser", "users": "eva@pve"});
    write("PUT", "/access/acl", grant).await;
    let grant = json!({"path": "/vms/100", "roles": "PVEVMUser", "tokens": "eva@pve!test"});
    let own = client.authorization.clone();
    let eva = format!("PVEAPIToken=eva@pve!test={}", text(&token, "value"));
    client.authorization = eva.clone();
    let path = format!("{VM}/termproxy");
    let refused = client.call("POST", &path, json!({"serial": "serial0"})).await;
    assert_eq!(
        (refused.status, refused.reason.as_str()),
        (403, "Permission check failed (/vms/100, VM.Console)")
    );
    client.authorization = own;
    client.call("PUT", "/access/acl", grant).await.data();
    client.authorization = eva;
    let opened = open(&client).await;
    assert_eq!(text(&opened, "user"), "eva@pve!test");
    let mut terminal = connected(&client, &opened).await;
    assert_eq!(terminal.greet(&opened).await, "VM 100 not running\r\n");
    assert_eq!(terminal.listen(&client, 60).await, (String::new(), true));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_say_who_it_is_in_time_or_says_it_wrong_is_turned_away() {
    let (_lab, client) = world(true).await;
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    assert_eq!(terminal.listen(&client, 9).await, (String::new(), true));
    assert_eq!(terminal.listen(&client, 2).await, (String::new(), false));
    let exit = client.task(text(&opened, "upid")).await;
    assert!(
        exit.starts_with("command '/usr/bin/termproxy 5900 ") && exit.ends_with("failed: exit code 1"),
        "{exit}"
    );

    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    terminal.send(format!("{}:PVEVNC:0::x\n", text(&opened, "user")).as_bytes()).await;
    assert_eq!(terminal.listen(&client, 1).await, (String::new(), false));

    let opened = open(&client).await;
    let (status, _) =
        Terminal::connect(&client, ("pve1", 8006), "port=5900&vncticket=PVEVNC%3A0%3A%3Ax").await.unwrap();
    assert_eq!(status, 401);
    let mut twice = connected(&client, &opened).await;
    let query = query(&opened);
    let again = Terminal::connect(&client, ("pve1", 8006), &query);
    let again = client.clock.timeout(Duration::from_secs(6), again);
    assert!(again.await.unwrap().is_none(), "the listener takes one client");
    assert_eq!(twice.greet(&opened).await, STARTING);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_too_late_gets_no_answer() {
    let (_lab, client) = world(true).await;
    let opened = open(&client).await;
    client.clock.sleep(Duration::from_secs(11)).await;
    let before = client.clock.now();
    assert!(Terminal::connect(&client, ("pve1", 8006), &query(&opened)).await.is_none());
    let waited = client.clock.now().duration_since(before).as_secs();
    assert!((4..=6).contains(&waited), "{waited} s");
    assert!(!is_running(&client, &opened).await);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_is_not_configured_says_so_and_stays_open() {
    let (_lab, client) = world(true).await;
    let path = format!("{VM}/termproxy");
    let opened = client.call("POST", &path, json!({"serial": "serial1"})).await.data();
    let mut terminal = connected(&client, &opened).await;
    assert_eq!(terminal.greet(&opened).await, "serial interface 'serial1' is not configured\r\n");
    assert_eq!(terminal.listen(&client, 90).await, (String::new(), true));
    assert!(is_running(&client, &opened).await);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_stops_leaves_its_client_in_silence() {
    let (_lab, client) = world(true).await;
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    terminal.greet(&opened).await;
    assert!(terminal.listen(&client, 40).await.0.contains("server certificate issued"));
    assert_eq!(client.done("POST", &format!("{VM}/status/stop"), json!({})).await, "OK");
    assert_eq!(client.done("POST", &format!("{VM}/status/start"), json!({})).await, "OK");
    assert_eq!(terminal.listen(&client, 90).await, (String::new(), true), "its program is dead");
    assert!(is_running(&client, &opened).await);
}

#[tokio::test(start_paused = true)]
async fn a_second_client_hears_nothing_until_the_first_has_gone() {
    let (_lab, client) = world(true).await;
    let (one, two) = (open(&client).await, open(&client).await);
    assert_eq!(text(&two, "port"), "5901");
    let mut first = connected(&client, &one).await;
    first.greet(&one).await;
    let mut second = connected(&client, &two).await;
    assert_eq!(second.greet(&two).await, STARTING);
    assert_eq!(second.listen(&client, 60).await, (String::new(), true));
    assert!(first.listen(&client, 1).await.0.contains("server certificate issued"));
    drop(first);
    client.done("POST", &format!("{VM}/status/reset"), json!({})).await;
    assert!(second.listen(&client, 60).await.0.contains("server certificate issued"));
}

#[tokio::test(start_paused = true)]
async fn consoles_can_be_broken() {
    let seconds = Duration::from_secs;
    let console = |fault| Injection::Console { vmid: 100, fault: Some(fault) };
    let at_socket = |number| {
        let which = CallFilter { path_contains: "/vncwebsocket".to_owned(), ..CallFilter::default() };
        Injection::Known { number, when: When::Call(which) }
    };
    for (fault, lines, is_open) in [
        (console(ConsoleFault::Silent), 0, true),
        (at_socket(66), 0, true),
        (console(ConsoleFault::Cut(seconds(10))), 1, false),
        (at_socket(67), 1, false),
        (console(ConsoleFault::Slow(seconds(60))), 0, true),
        (at_socket(68), 1, true),
    ] {
        let (lab, client) = world(true).await;
        lab.inject(fault.clone());
        let opened = open(&client).await;
        let mut terminal = connected(&client, &opened).await;
        assert_eq!(terminal.greet(&opened).await, STARTING);
        let (printed, open) = terminal.listen(&client, 40).await;
        assert_eq!((printed.is_empty(), open), (lines == 0, is_open), "{fault:?}: {printed}");
    }
    let (lab, client) = world(true).await;
    lab.inject(console(ConsoleFault::Flood));
    let opened = open(&client).await;
    let mut terminal = connected(&client, &opened).await;
    terminal.greet(&opened).await;
    let (printed, _) = terminal.listen(&client, 60).await;
    assert!(printed.len() > 4 << 20 && !fingerprints(&printed).is_empty());
    let which = CallFilter { path_contains: "/termproxy".to_owned(), ..CallFilter::default() };
    lab.inject(Injection::Known { number: 65, when: When::Call(which) });
    let failed = client.call("POST", &format!("{VM}/termproxy"), json!({})).await;
    assert_eq!(
        (failed.status, failed.reason.as_str()),
        (500, "Timeout while waiting for port '5900' to get ready!")
    );
}

#[tokio::test]
async fn a_served_lab_has_consoles_too() {
    let clock = ambient::Clock::from(crate::LabConfig::first_moment(), 50.0);
    let lab = Lab::open(crate::LabConfig::default(), clock.clone()).unwrap();
    let mut client = Client::new(&lab, &clock);
    assert_eq!(client.talos_vm(100).await, "OK");
    let any = "127.0.0.1:0".parse().unwrap();
    let serving = lab.serve(ServeOptions { proxmox: any, factory: any }).await.unwrap();
    client.net = ambient::Net::tcp();
    let at = ("127.0.0.1", serving.proxmox.port());
    let call = async |path: &str, body: Value| {
        let request = http::Request::post(format!("/api2/json{VM}{path}")).header("Host", "pve1");
        let request =
            request.header("Authorization", &client.authorization).header("Content-Type", "application/json");
        let body = http_body_util::Full::from(body.to_string());
        client.send(at.0, at.1, request.body(body).unwrap()).await.unwrap().data()
    };
    call("/status/start", json!({})).await;
    clock.sleep(Duration::from_secs(4)).await;
    let opened = call("/termproxy", json!({"serial": "serial0"})).await;
    let (status, mut terminal) = Terminal::connect(&client, at, &query(&opened)).await.unwrap();
    assert_eq!(status, 101);
    assert_eq!(terminal.greet(&opened).await, STARTING);
    let (printed, open) = terminal.listen(&client, 60).await;
    assert!(open && !fingerprints(&printed).is_empty(), "{printed}");
}
