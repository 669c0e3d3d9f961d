//! Boot images: the factory is told of a schematic, then each host (or shared datastore) fetches the image once.

use std::time::Duration;

use talos_client::Factory;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};

/// Posts the schematic and checks that the factory computes the id that the plan was made with.
pub(super) async fn register(context: &Context, image: &str, schematic: &str) -> Result<Done> {
    let systems = &context.systems;
    let wanted = context.snapshot.blueprint.images.get(image).ok_or_else(|| {
        Error::new(
            Kind::Refused,
            format!("the plan names the image {image}, which the blueprint does not have"),
        )
    })?;
    let attempt = || {
        Error::systems(format!("could not register the schematic with {}", wanted.factory)).hint(
            "check that this machine reaches the Image Factory, or name another one with `image.factory`",
        )
    };
    let factory = Factory::new(systems.net.clone(), &systems.clock, &wanted.factory, &systems.factory_roots)
        .map_err(|e| attempt().because(e))?;
    let text = context.snapshot.schematic(image)?;
    let posted = systems.clock.timeout(FACTORY, factory.post_schematic(text)).await;
    let answered = match posted {
        Ok(Ok(answer)) => answer,
        // With a mirror, there may be no way to the factory. The mirror knows what it was told before; the download tells.
        Ok(Err(_)) | Err(_) if wanted.mirror.is_some() => {
            let warning =
                format!("{} did not answer; {schematic} must be known to the mirror", wanted.factory);
            return Ok(Done { warnings: vec![warning] });
        }
        Ok(Err(error)) => return Err(attempt().because(error)),
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    if answered != schematic {
        return Err(Error::systems(format!(
            "the factory {} gave the schematic the id {answered}, we computed {schematic}",
            wanted.factory
        ))
        .hint("a factory that adds an owner changes ids and is not supported yet; use another factory"));
    }
    Ok(Done::default())
}

/// Lets a host fetch an image. Two operators may fetch the same file: the second one finds it there.
pub(super) async fn download(
    context: &Context,
    host: &str,
    datastore: &str,
    file: &str,
    url: &str,
    progress: &Progress,
) -> Result<Done> {
    let pve = &context.systems.pve;
    // It was put there since the plan: its name alone proves nothing.
    if let Some(done) = found(context, host, datastore, file, url).await? {
        return Ok(done);
    }
    let request = pve::DownloadUrl {
        url: url.to_owned(),
        filename: file.to_owned(),
        content: "import".to_owned(),
        checksum: None,
        verify_certificates: true,
    };
    let attempt = || Error::systems(format!("could not download {file} to {datastore} on {host}"));
    let mut tries = 1;
    loop {
        progress.percent("downloading", 0);
        let finished = match pve.download_url(host, datastore, &request).await {
            Ok(upid) => {
                pve.follow(&upid, |line| {
                    if let Some(percent) = percent(line) {
                        progress.percent("downloading", percent);
                    }
                })
                .await
            }
            Err(error) => Err(error),
        };
        match finished {
            Ok(finished) => {
                let Some(bytes) = length(context, host, datastore, file).await? else {
                    return Err(attempt()
                        .coded(NO_EFFECT)
                        .hint(format!("Proxmox reported success, but {datastore} does not list the file")));
                };
                let unknown = whole(context, host, url, bytes).await.map_err(|why| {
                    attempt()
                        .coded(NO_EFFECT)
                        .hint(format!("{why}; delete {file} in {datastore} and run the command again"))
                })?;
                return Ok(Done { warnings: finished.warnings.into_iter().chain(unknown).collect() });
            }
            Err(error) => {
                // Another operator may have fetched it meanwhile.
                if let Some(done) = found(context, host, datastore, file, url).await? {
                    return Ok(done);
                }
                if tries >= TRIES || !worth_another_try(&error) {
                    return Err(attempt().hint(hint(&error)).because(error));
                }
            }
        }
        progress.note("the download failed; trying again");
        context.systems.clock.sleep(INTERVAL * tries).await;
        tries += 1;
    }
}

/// What passes by itself, and a download that broke off. What the server refused it would refuse again.
fn worth_another_try(error: &pve::Error) -> bool {
    let broke_off = |text: &String| text.contains("download failed") && !text.contains("exit code 8");
    error.is_transient()
        || error.effect_unknown()
        || matches!(error.kind(), pve::Kind::TaskFailed { exit, .. } if broke_off(exit))
}

/// A file is as long as what is there to download; or a warning that this is not known; or why it is another file.
async fn whole(
    context: &Context,
    host: &str,
    url: &str,
    bytes: u64,
) -> std::result::Result<Option<String>, String> {
    let asked = context.systems.clock.timeout(FACTORY, context.systems.pve.query_url(host, url)).await;
    match asked {
        Ok(Ok(pve::UrlAnswer::There { size: Some(expected) })) if bytes > 0 && expected == bytes => Ok(None),
        Ok(Ok(pve::UrlAnswer::There { size: Some(expected) })) if bytes > 0 => {
            Err(format!("the file has {bytes} bytes, and the image at {url} has {expected}"))
        }
        _ => Ok(Some(format!(
            "whether the file on {host} is the whole image could not be checked: its size, or that of {url}, is not known"
        ))),
    }
}

/// The file that another task put there, if there is one and it is the image.
async fn found(
    context: &Context,
    host: &str,
    datastore: &str,
    file: &str,
    url: &str,
) -> Result<Option<Done>> {
    let Some(bytes) = length(context, host, datastore, file).await? else { return Ok(None) };
    let warnings = whole(context, host, url, bytes).await.map_err(|why| {
        Error::systems(format!("could not use {file} in {datastore} on {host}"))
            .coded(NO_EFFECT)
            .hint(format!("{why}; delete {file} in {datastore} and run the command again"))
    })?;
    Ok(Some(Done { warnings: warnings.into_iter().collect() }))
}

/// How many bytes a file in a datastore has (0 where Proxmox does not tell), if it is there.
async fn length(context: &Context, host: &str, datastore: &str, file: &str) -> Result<Option<u64>> {
    let content = context.systems.pve.storage_content(host, datastore, "import").await.map_err(|e| {
        Error::systems(format!("could not list {datastore} on {host}")).hint(hint(&e)).because(e)
    })?;
    let volume = format!("{datastore}:import/{file}");
    Ok(content.iter().find(|c| c.volid == volume).map(|c| c.size.unwrap_or(0)))
}

/// The percentage in a line such as wget writes them: `  1200K ........ 42% 10M 3s`.
fn percent(line: &str) -> Option<u8> {
    let digits = line.split_whitespace().find_map(|word| word.strip_suffix('%'))?;
    digits.parse::<f32>().ok().filter(|p| (0.0..=100.0).contains(p)).map(|p| p as u8)
}

/// The factory computes nothing at this call, it only keeps the text.
const FACTORY: Duration = Duration::from_secs(30);
/// How often a download is started.
const TRIES: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn percentages_are_found_in_wget_lines() {
        assert_eq!(percent(" 51200K .......... .......... 42% 10.1M 3s"), Some(42));
        assert_eq!(percent("100% done"), Some(100));
        assert_eq!(percent("Saving to: x"), None);
        assert_eq!(percent("500% of nothing"), None);
    }
}
