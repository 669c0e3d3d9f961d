//! One request to several machines: each answers by itself, and the answers are put together.
//!
//! This works on the bytes of messages, as a real proxy does, because it is the same for every method: an answer that is
//! one message is a list (field 1) whose entries are marked with the machine they came from (their own field 1); an answer
//! that is a stream is marked message by message. A machine that fails is an entry that says so, and the call is well.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, FuturesUnordered};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use prost::Message as _;
use talos::wire::common::Metadata;
use talos::wire::rpc;
use tonic::Status;
use tonic::body::Body;

use super::encode::delimited;
use super::{Caller, door};

/// Methods of these services whose answer is a stream.
const STREAMS: &[&str] = &[
    "Copy",
    "DiskUsage",
    "Dmesg",
    "EtcdSnapshot",
    "Events",
    "HealthCheck",
    "ImageList",
    "Kubeconfig",
    "List",
    "Logs",
    "PacketCapture",
    "Read",
];

/// Asks each of `names` and answers with what they say.
pub(super) async fn answer<B>(caller: Caller, names: Vec<String>, request: Request<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return Status::cancelled("the request was not sent to its end").into_http();
    };
    let method = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    let streams = STREAMS.contains(&method.as_str());
    let asked = names.into_iter().map(|name| {
        let (caller, parts, body) = (caller.clone(), parts.clone(), body.clone());
        async move { (name.clone(), ask(&caller, &name, parts, body).await) }
    });
    if streams {
        let all: Vec<_> = asked
            .map(|one| stream::once(one).flat_map(|(name, response)| marked(name, response)).boxed())
            .collect();
        let messages = stream::select_all(all).map(|message| Ok(Frame::data(framed(&message))));
        return respond(StreamBody::new(messages.chain(stream::once(async { Ok(Frame::trailers(fine())) }))));
    }
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut whole = vec![];
    while let Some((name, response)) = asked.next().await {
        let messages: Vec<_> = read(response).collect().await;
        for message in messages {
            match message {
                Ok(bytes) => entries(&bytes).for_each(|entry| mark(&name, None, entry, &mut whole)),
                Err(status) => mark(&name, Some(&status), &[], &mut whole),
            }
        }
    }
    let frames: [Result<Frame<Bytes>, Status>; 2] =
        [Ok(Frame::data(framed(&whole))), Ok(Frame::trailers(fine()))];
    respond(StreamBody::new(stream::iter(frames)))
}

async fn ask(caller: &Caller, name: &str, mut parts: http::request::Parts, body: Bytes) -> Response<Body> {
    for key in ["node", "nodes"] {
        parts.headers.remove(key);
    }
    match door::find(caller, name).await {
        Ok(target) => {
            let path = parts.uri.path().trim_start_matches('/').to_owned();
            let (service, method) = path.split_once('/').unwrap_or_default();
            door::serve(target, service, method, Request::from_parts(parts, Full::new(body))).await
        }
        Err(status) => status.into_http(),
    }
}

fn respond(body: impl hyper::body::Body<Data = Bytes, Error = Status> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

fn fine() -> http::HeaderMap {
    http::HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_static("0"),
    )])
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// The messages of one machine's stream, each with its name.
fn marked(name: String, response: Response<Body>) -> impl futures::Stream<Item = Vec<u8>> + Send {
    read(response).map(move |message| {
        let (status, bytes) = match message {
            Ok(bytes) => (None, bytes),
            Err(status) => (Some(status), Bytes::new()),
        };
        let mut marked = vec![];
        delimited(1, &metadata(&name, status.as_ref()), &mut marked);
        marked.extend_from_slice(&bytes);
        marked
    })
}

/// An entry of the whole answer.
fn mark(name: &str, status: Option<&Status>, entry: &[u8], whole: &mut Vec<u8>) {
    let mut marked = vec![];
    delimited(1, &metadata(name, status), &mut marked);
    marked.extend_from_slice(entry);
    delimited(1, &marked, whole);
}

fn metadata(name: &str, status: Option<&Status>) -> Vec<u8> {
    let failure = status.map(|status| {
        let code = format!("{:?}", status.code());
        (
            format!("rpc error: code = {code} desc = {}", status.message()),
            rpc::Status { code: status.code().into(), message: status.message().to_owned(), details: vec![] },
        )
    });
    let (error, status) = failure.map_or((String::new(), None), |(error, status)| (error, Some(status)));
    Metadata { hostname: name.to_owned(), error, status }.encode_to_vec()
}

/// The entries of a message that is a list in field 1.
fn entries(mut message: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (key, rest) = message.split_first()?;
        let mut rest = rest;
        let length = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
        let entry = rest.get(..length).filter(|_| *key == 0x0a)?;
        message = &rest[length..];
        Some(entry)
    })
}

/// The messages of a response, and its failure if it has one.
fn read(response: Response<Body>) -> impl futures::Stream<Item = Result<Bytes, Status>> + Send {
    let early = Status::from_header_map(response.headers()).filter(|status| status.code() != tonic::Code::Ok);
    let state = (response.into_body(), BytesMut::new(), early, false);
    stream::unfold(state, |(mut body, mut buffer, early, ended)| async move {
        if let Some(status) = early {
            return Some((Err(status), (body, buffer, None, true)));
        }
        if ended {
            return None;
        }
        loop {
            if let Some(length) = buffer.get(1..5).map(|mut head| head.get_u32())
                && let Ok(length) = usize::try_from(length)
                && buffer.len() >= 5 + length
            {
                buffer.advance(5);
                let message = buffer.split_to(length).freeze();
                return Some((Ok(message), (body, buffer, None, false)));
            }
            match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => buffer.extend_from_slice(&data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        let status =
                            Status::from_header_map(&trailers).filter(|s| s.code() != tonic::Code::Ok)?;
                        return Some((Err(status), (body, buffer, None, true)));
                    }
                },
                Some(Err(status)) => return Some((Err(status), (body, buffer, None, true))),
                None => return None,
            }
        }
    })
}
