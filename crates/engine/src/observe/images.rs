//! Whether the boot images of new nodes can be had, before anything is made.
//!
//! Two ways must be open. This machine tells the factory of the schematic, so the factory must answer here, and know the
//! release and the extensions; a mirror does without that, if it was told before. And each host downloads for itself, so each
//! host is asked what it finds at the address. Looking at an image that the factory never built makes it build it, which takes
//! minutes, so a host is only asked for the factory's list; what it answers does not matter, only that it does.
//!
//! An image that is in the datastore already is known by its name, and the factory publishes no checksum that Proxmox could hold it
//! against. What can be compared is its length, with the length that the host is told where the image comes from.
//!
//! What is missing here would fail later, when half of the cluster is created.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use model::blueprint::{Blueprint, Image, Node};
use model::names::NodeName;
use model::observed::{Api, Machine, NoImage, Proxmox, StoredImage, Unobserved, UnsizedImage};
use pve::UrlAnswer;
use talos_client::{Factory, FactoryError};

use super::proxmox::ask;
use crate::Systems;

/// For one answer of the factory.
const TIMEOUT: Duration = Duration::from_secs(10);
/// One lost answer says nothing.
const TRIES: usize = 2;
/// What a host says, by way of its web client, when there is no connection.
const NO_CONNECTION: &str = "Can't connect";

/// Everything that keeps new nodes from their images.
pub(super) async fn missing(
    systems: &Systems,
    blueprint: &Blueprint,
    schematics: &BTreeMap<String, String>,
    seen: &Proxmox,
    new: &[&Node],
    unobserved: &mut Vec<Unobserved>,
) -> Vec<NoImage> {
    let wanted = to_download(blueprint, schematics, seen, new);
    let images: BTreeSet<&Image> = wanted.iter().map(|(image, ..)| *image).collect();
    let factories: BTreeSet<&String> = images.iter().map(|image| &image.factory).collect();
    let asked = join_all(factories.iter().map(|factory| releases(systems, factory))).await;
    let mut unresponsive: BTreeMap<&String, String> = BTreeMap::new();
    let mut found = vec![];
    for (factory, releases) in factories.into_iter().zip(asked) {
        match releases {
            Ok(releases) => {
                for image in images.iter().filter(|image| image.factory == *factory) {
                    found.extend(unknown(systems, image, &releases).await);
                }
            }
            Err(why) => {
                unresponsive.insert(factory, why);
            }
        }
    }
    for (factory, why) in &unresponsive {
        if images.iter().any(|image| image.factory == **factory && image.mirror.is_none()) {
            found.push(NoImage::FactorySilent { factory: (*factory).clone(), why: why.clone() });
        }
    }
    let questions: BTreeSet<(&String, String, bool)> = wanted
        .into_iter()
        .map(|(image, host, url)| match image.mirror {
            Some(_) => (host, url, unresponsive.contains_key(&image.factory)),
            None => (host, format!("{}/versions", image.factory), false),
        })
        .collect();
    let answers =
        join_all(questions.iter().map(|(host, url, _)| ask(systems, systems.pve.query_url(host, url)))).await;
    for ((host, url, must_be_there), answer) in questions.into_iter().zip(answers) {
        match answer {
            Ok(UrlAnswer::Refused { text, .. }) if text.starts_with(NO_CONNECTION) => {
                found.push(NoImage::HostCannotReach { host: host.clone(), url, why: text });
            }
            Ok(UrlAnswer::Refused { status: 404, .. }) if must_be_there => {
                found.push(NoImage::NotInMirror { host: host.clone(), url });
            }
            Ok(_) => {}
            Err(why) => unobserved.push(Unobserved { what: format!("whether {host} reaches {url}"), why }),
        }
    }
    found
}

/// What the factory does not have of the images that running nodes should get. Where it does not answer, nothing is known: machines may
/// reach a mirror that has the image.
pub(crate) async fn not_installable(
    systems: &Systems,
    blueprint: &Blueprint,
    schematics: &BTreeMap<String, String>,
    machines: &BTreeMap<NodeName, Machine>,
) -> Vec<NoImage> {
    let differs = |node: &&Node| {
        let (machine, schematic) = (machines.get(&node.name), schematics.get(&node.image));
        let machine = machine.filter(|machine| machine.api == Api::Configured);
        machine.is_some_and(|machine| {
            machine.talos.as_ref().is_some_and(|runs| *runs != node.talos)
                || machine.schematic.is_some() && machine.schematic.as_ref() != schematic
        })
    };
    let nodes = blueprint.nodes.values().filter(differs);
    let images: BTreeSet<&Image> = nodes.filter_map(|node| blueprint.images.get(&node.image)).collect();
    let mut found = vec![];
    for image in images.into_iter().filter(|image| image.mirror.is_none()) {
        if let Ok(releases) = releases(systems, &image.factory).await {
            found.extend(unknown(systems, image, &releases).await);
        }
    }
    found
}

/// Files that have the name of an image and another length; and those of which that is not known, because one of both lengths is not
/// told. Unknown is no reason against a file: a host may have been given the image by hand because it reaches no factory.
pub(super) async fn other_files(
    systems: &Systems,
    blueprint: &Blueprint,
    schematics: &BTreeMap<String, String>,
    stored: &BTreeMap<StoredImage, u64>,
    new: &[&Node],
) -> (Vec<NoImage>, Vec<UnsizedImage>) {
    let mut questions: BTreeMap<&StoredImage, (String, u64)> = BTreeMap::new();
    for node in new {
        let (Some(image), Some(schematic)) = (blueprint.images.get(&node.image), schematics.get(&node.image))
        else {
            continue;
        };
        let file = image.file_name(schematic);
        let its = |(stored, _): &(&StoredImage, &u64)| {
            stored.file == file && Some(&stored.datastore) == node.image_datastore.as_ref()
        };
        for (stored, bytes) in stored.iter().filter(its) {
            questions.insert(stored, (image.url(schematic), *bytes));
        }
    }
    let answers =
        join_all(questions.iter().map(|(at, (url, _))| ask(systems, systems.pve.query_url(&at.host, url))))
            .await;
    let (mut found, mut unproven) = (vec![], vec![]);
    for ((at, (url, bytes)), answer) in questions.into_iter().zip(answers) {
        match compared(bytes, &url, answer) {
            Size::Same => {}
            Size::Differs { expected } => {
                let StoredImage { host, datastore, file } = at.clone();
                found.push(NoImage::AnotherFile { host, datastore, file, bytes, expected });
            }
            Size::Unknown { why } => unproven.push(UnsizedImage { image: at.clone(), why }),
        }
    }
    (found, unproven)
}

/// How the length of a file compares with that of the image.
#[derive(Debug, PartialEq, Eq)]
enum Size {
    Same,
    Differs { expected: u64 },
    Unknown { why: String },
}

/// A length that is not told is not the same length.
fn compared(bytes: u64, url: &str, answer: Result<UrlAnswer, String>) -> Size {
    let unknown = |why: String| Size::Unknown { why };
    match answer {
        _ if bytes == 0 => unknown("Proxmox does not tell its size".to_owned()),
        Ok(UrlAnswer::There { size: Some(expected) }) if expected == bytes => Size::Same,
        Ok(UrlAnswer::There { size: Some(expected) }) => Size::Differs { expected },
        Ok(UrlAnswer::There { size: None }) => unknown(format!("the server does not tell the size of {url}")),
        Ok(UrlAnswer::Refused { text, .. }) => unknown(format!("{url} cannot be read: {text}")),
        Err(why) => unknown(format!("the host could not be asked for {url}: {why}")),
    }
}

/// Images that hosts will download: which, who, from where.
fn to_download<'b>(
    blueprint: &'b Blueprint,
    schematics: &BTreeMap<String, String>,
    seen: &Proxmox,
    new: &[&'b Node],
) -> Vec<(&'b Image, &'b String, String)> {
    let mut wanted = vec![];
    for node in new {
        let (Some(host), Some(store), Some(image), Some(schematic)) = (
            &node.host,
            &node.image_datastore,
            blueprint.images.get(&node.image),
            schematics.get(&node.image),
        ) else {
            continue;
        };
        let file = image.file_name(schematic);
        let online = seen.inventory.hosts.get(host).is_some_and(|host| host.online);
        if online && !seen.has_image(host, store, &file) {
            wanted.push((image, host, image.url(schematic)));
        }
    }
    wanted
}

/// The releases that a factory has, or why it does not say.
async fn releases(systems: &Systems, factory: &str) -> Result<Vec<String>, String> {
    let factory = connect(systems, factory).map_err(|error| last_cause(&error))?;
    let mut why = String::new();
    for _ in 0..TRIES {
        match systems.clock.timeout(TIMEOUT, factory.versions()).await {
            Ok(Ok(releases)) => return Ok(releases),
            Ok(Err(error)) => why = last_cause(&error),
            Err(_) => why = format!("no answer within {} seconds", TIMEOUT.as_secs()),
        }
    }
    Err(why)
}

/// What the factory does not have of an image. That it does not tell now is no reason against it.
async fn unknown(systems: &Systems, image: &Image, releases: &[String]) -> Vec<NoImage> {
    let (factory, talos) = (image.factory.clone(), image.talos.clone());
    let Ok(client) = connect(systems, &factory) else { return vec![] };
    if !releases.contains(&talos) {
        // Releases that are known to be broken are listed only on request.
        let all = systems.clock.timeout(TIMEOUT, client.all_versions()).await;
        let known = all.is_ok_and(|all| all.is_ok_and(|all| all.contains(&talos)));
        return if known { vec![] } else { vec![NoImage::UnknownRelease { factory, talos }] };
    }
    if image.extensions.is_empty() {
        return vec![];
    }
    let listed = systems.clock.timeout(TIMEOUT, client.extensions(&talos)).await;
    let Ok(Ok(listed)) = listed else { return vec![] };
    let missing = image.extensions.iter().filter(|extension| !listed.contains(extension));
    missing
        .map(|extension| NoImage::UnknownExtension {
            factory: factory.clone(),
            talos: talos.clone(),
            extension: extension.clone(),
        })
        .collect()
}

fn connect(systems: &Systems, factory: &str) -> Result<Factory, FactoryError> {
    Factory::new(systems.net.clone(), &systems.clock, factory, &systems.factory_roots)
}

fn last_cause(error: &FactoryError) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8_a_size_that_is_not_told_is_not_the_right_size() {
        let there = |size| Ok(UrlAnswer::There { size });
        assert_eq!(compared(10, "u", there(Some(10))), Size::Same);
        assert_eq!(compared(10, "u", there(Some(11))), Size::Differs { expected: 11 });
        for (bytes, answer) in [
            (0, there(Some(10))),
            (10, there(None)),
            (10, Ok(UrlAnswer::Refused { status: 404, text: "404 Not Found".into() })),
            (10, Err("no answer within 20 seconds".into())),
        ] {
            assert!(matches!(compared(bytes, "u", answer), Size::Unknown { .. }));
        }
    }
}
