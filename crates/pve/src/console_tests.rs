//! The console against a server that was written from what a real Proxmox VE did.

use std::sync::{Arc, Mutex};

use ambient::{Dial, Net, Stream};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Endpoints, Fingerprint, Trust};

const TICKET: &str = "PVEVNC:6AFB455F::ab+c/d==";
const USER: &str = "e2e@pve!talosmith";
const TERMPROXY: &str = r#"{"data":{"user":"e2e@pve!talosmith","ticket":"PVEVNC:6AFB455F::ab+c/d==","port":"5900","upid":"UPID:pve1:0:0:0:vncproxy:150011:e2e@pve!talosmith:"}}"#;

/// What the server does on the second connection.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    /// Everything as it should be; then these bytes in frames, then whatever comes is written down.
    Serve(&'static [&'static [u8]]),
    /// It knows another ticket.
    AnotherTicket,
    /// No one listens any more.
    Expired,
    /// It takes the first frame and says nothing.
    Mute,
    /// It has no such VM.
    Refuse(&'static str),
    /// It closes after the bytes.
    ServeAndClose(&'static [&'static [u8]]),
}

struct Proxmox {
    acceptor: TlsAcceptor,
    first: &'static str,
    second: Second,
    seen: Arc<Mutex<Vec<String>>>,
    clock: Clock,
}

impl Dial for Proxmox {
    fn dial(&self, host: &str, _: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        if host == "down" {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (acceptor, first, second) = (self.acceptor.clone(), self.first, self.second);
        let (seen, host, clock) = (self.seen.clone(), host.to_owned(), self.clock.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(theirs).await else { return };
            let mut request = Vec::new();
            while !request.windows(4).any(|w| w == b"\r\n\r\n")
                && stream.read_buf(&mut request).await.unwrap_or(0) > 0
            {}
            let text = String::from_utf8_lossy(&request).into_owned();
            seen.lock().unwrap().push(format!("{host} {text}"));
            if text.starts_with("POST") {
                let (status, body) = first.split_once('|').unwrap_or(("200 OK", first));
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                return;
            }
            serve(stream, &text, second, &seen, &clock).await;
        });
        Box::pin(async { Ok(Stream::new(ours)) })
    }
}

/// Reads one frame of a client, unmasked.
async fn frame(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let flags = stream.read_u8().await.ok()?;
    let length = stream.read_u8().await.ok()?;
    assert_eq!(length & 0x80, 0x80, "a client masks");
    let length = match length & 0x7f {
        126 => usize::from(stream.read_u16().await.ok()?),
        127 => panic!("too long"),
        short => usize::from(short),
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await.ok()?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.ok()?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Some((flags, payload))
}

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<tokio::io::DuplexStream>,
    request: &str,
    second: Second,
    seen: &Mutex<Vec<String>>,
    clock: &Clock,
) {
    match second {
        Second::Expired => return clock.sleep(Duration::from_secs(5)).await,
        Second::Refuse(answer) => {
            stream.write_all(answer.as_bytes()).await.unwrap();
            return stream.flush().await.unwrap();
        }
        _ => {}
    }
    let key = request.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    let accept = STANDARD.encode(Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")));
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let Some((flags, first)) = frame(&mut stream).await else { return };
    assert_eq!((flags, first), (0x82, format!("{USER}:{TICKET}\n").into_bytes()));
    let (said, close) = match second {
        Second::Serve(said) => (said, false),
        Second::ServeAndClose(said) => (said, true),
        Second::Mute => (&[][..], false),
        _ => return,
    };
    if second != Second::Mute {
        stream.write_all(b"\x82\x02OK").await.unwrap();
    }
    for part in said {
        stream.write_all(&[0x82, u8::try_from(part.len()).unwrap()]).await.unwrap();
        stream.write_all(part).await.unwrap();
    }
    stream.flush().await.unwrap();
    if close {
        return;
    }
    while let Some((flags, payload)) = frame(&mut stream).await {
        let at = clock.now().as_second();
        seen.lock().unwrap().push(format!("{at} {flags:#x} {}", String::from_utf8_lossy(&payload)));
    }
}

struct Rig {
    client: Client,
    clock: Clock,
    seen: Arc<Mutex<Vec<String>>>,
}

fn rig(first: &'static str, second: Second) -> Rig {
    let made = rcgen::generate_simple_self_signed(["pve1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let clock = Clock::from("1970-01-01T00:00:00Z".parse().unwrap(), 1.0);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let net = Net::of(Proxmox { acceptor, first, second, seen: seen.clone(), clock: clock.clone() });
    let endpoints = Endpoints::parse(["https://down:8006", "https://pve1:8006"]).unwrap();
    let trust = Trust::Fingerprints(vec![Fingerprint::of(made.cert.der())]);
    let token = "e2e@pve!talosmith=secret".parse().unwrap();
    Rig { client: Client::connect(endpoints, &token, &trust, net, clock.clone()).unwrap(), clock, seen }
}

const STARTING: &[u8] = b"starting serial terminal on interface serial0\r\n";

#[tokio::test(start_paused = true)]
async fn lines_are_read_as_they_were_printed() {
    let rig = rig(
        TERMPROXY,
        Second::Serve(&[
            b"starting serial term",
            b"inal on interface serial0\r\n[    0.",
            b"0] Linux\r",
            b"\n",
        ]),
    );
    let mut console = rig.client.console("pve1", 150_011).await.unwrap();
    let (mut lines, mut read) = (Lines::default(), vec![]);
    while read.is_empty() {
        read.extend(lines.push(&console.read().await.unwrap()));
    }
    assert_eq!(read, ["[    0.0] Linux"]);
    let seen = rig.seen.lock().unwrap().clone();
    assert!(
        seen[0].starts_with("pve1 POST /api2/json/nodes/pve1/qemu/150011/termproxy HTTP/1.1"),
        "{}",
        seen[0]
    );
    assert!(seen[0].ends_with("{\"serial\":\"serial0\"}"), "{}", seen[0]);
    let second = "pve1 GET /api2/json/nodes/pve1/qemu/150011/vncwebsocket?port=5900&vncticket=PVEVNC%3A6AFB455F%3A%3Aab%2Bc%2Fd%3D%3D HTTP/1.1";
    assert!(seen[1].starts_with(second), "{}", seen[1]);
    assert!(seen.iter().all(|s| s.contains("authorization: PVEAPIToken=e2e@pve!talosmith=secret")));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_console_is_kept_alive_and_stays_open() {
    // As a VM that stopped, or a second console of one VM: nothing comes, and nothing is closed.
    let rig = rig(TERMPROXY, Second::Serve(&[STARTING]));
    let mut console = rig.client.console("pve1", 150_011).await.unwrap();
    assert!(rig.clock.timeout(Duration::from_secs(100), console.read()).await.is_err(), "it is quiet");
    console.write(b"ls\r").await.unwrap();
    console.close().await;
    rig.clock.sleep(Duration::from_millis(1)).await;
    let seen = rig.seen.lock().unwrap().clone();
    assert_eq!(seen[2..], ["30 0x82 2", "60 0x82 2", "90 0x82 2", "100 0x82 0:3:ls\r", "100 0x88 "]);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_nothing_more_is_tried() {
    let denied = "403 Permission check failed (/vms/150011, VM.Console)|{\"data\":null}";
    let rig = rig(denied, Second::Mute);
    let error = rig.client.console("pve1", 150_011).await.unwrap_err();
    assert!(matches!(error, ConsoleError::NoRight { vmid: 150_011, .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("VM.Console on /vms/150011") && !error.is_transient());
    assert_eq!(rig.seen.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_vm_without_a_serial_port_says_so() {
    let rig = rig(TERMPROXY, Second::Serve(&[b"serial interface 'serial0' ", b"is not configured"]));
    let mut console = rig.client.console("pve1", 150_011).await.unwrap();
    let error = console.read().await.unwrap_err();
    assert!(matches!(error, ConsoleError::NoSerialPort { .. }) && !error.is_transient(), "{error:?}");
    assert!(error.hint().unwrap().contains("qm set 150011 --serial0 socket"));
}

#[tokio::test(start_paused = true)]
async fn the_guest_cannot_pretend_to_have_no_serial_port() {
    let said: &[&[u8]] = &[STARTING, b"serial interface 'serial0' is not configured\r\n"];
    let rig = rig(TERMPROXY, Second::Serve(said));
    let mut console = rig.client.console("pve1", 150_011).await.unwrap();
    assert!(console.read().await.unwrap().starts_with(b"serial interface"));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_not_accepted_is_told_from_silence() {
    for second in [Second::AnotherTicket, Second::Expired] {
        let error = rig(TERMPROXY, second).client.console("pve1", 150_011).await.unwrap_err();
        assert!(matches!(error, ConsoleError::NotAccepted { .. }) && error.is_transient(), "{error:?}");
    }
    let rig = rig(TERMPROXY, Second::Mute);
    let error = rig.client.console("pve1", 150_011).await.unwrap_err();
    assert!(matches!(error, ConsoleError::NoAnswer { .. }), "{error:?}");
    assert_eq!(rig.clock.now().as_second(), 15);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_websocket_is_an_error_of_proxmox() {
    let refused = Second::Refuse(
        "HTTP/1.1 500 unable to find configuration file for VM 150011\r\nContent-Length: 13\r\n\r\n{\"data\":null}",
    );
    let error = rig(TERMPROXY, refused).client.console("pve1", 150_011).await.unwrap_err();
    assert!(matches!(&error, ConsoleError::Failed { source, .. } if source.is_missing()), "{error:?}");
    let error = rig("{\"data\":{}}", Second::Mute).client.console("pve1", 150_011).await.unwrap_err();
    assert!(matches!(error, ConsoleError::Failed { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn what_came_before_the_end_is_read_first() {
    let rig = rig(TERMPROXY, Second::ServeAndClose(&[STARTING, b"last words\r\n"]));
    let mut console = rig.client.console("pve1", 150_011).await.unwrap();
    assert_eq!(console.read().await.unwrap(), "last words\r\n");
    let error = console.read().await.unwrap_err();
    assert!(matches!(error, ConsoleError::Closed { .. }), "{error:?}");
}
