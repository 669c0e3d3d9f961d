//! Container images and installers: `machine.ImageService`, `machine.LifecycleService`, and the older calls for the same.
//!
//! The registries of the lab are the Image Factory, which has an installer for each schematic that it knows, and the public
//! ones, which have every image of a plausible name. What a closed world does not reach hangs, as a real registry behind
//! a silent network does.

use futures::{StreamExt as _, stream};
use sha2::Digest as _;
use talos::wire::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talos::wire::machine as wire;
use talos::wire::machine::image_service_pull_layer_progress::Status as Layer;
use talos::wire::machine::image_service_server::ImageService;
use talos::wire::machine::lifecycle_service_server::LifecycleService;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::machine_service::{Answer, stamp};
use super::{Caller, reference};
use crate::machine::{BootImage, Installer, is_published, not_found, timing};

/// How large every image of the lab is.
const SIZE: i64 = 11_061_922;

fn digest(reference: &str) -> String {
    format!("sha256:{}", hex::encode(sha2::Sha256::digest(reference)))
}

/// The name pinned to its content.
fn pinned(reference: &str) -> String {
    let bare = reference.split('@').next().unwrap_or(reference);
    let name = bare.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(bare, |(name, _)| name);
    format!("{name}@{}", digest(bare))
}

/// The name that an archive gives to its image: that of its index, or else of its manifest.
fn image_name(archive: &[u8]) -> Option<String> {
    let (mut rest, mut found) = (archive, None);
    while let Some(head) = rest.get(..512) {
        let text = |range: std::ops::Range<usize>| {
            let bytes = head.get(range).unwrap_or_default();
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).unwrap_or(0);
        let content = rest.get(512..512 + size)?;
        let tree = || serde_json::from_slice::<serde_json::Value>(content).ok();
        let name = match text(0..100).trim_start_matches("./") {
            "index.json" => tree()
                .and_then(|tree| tree.pointer("/manifests/0/annotations/io.containerd.image.name").cloned()),
            "manifest.json" => tree().and_then(|tree| tree.pointer("/0/RepoTags/0").cloned()),
            _ => None,
        };
        found = found.or_else(|| name?.as_str().map(str::to_owned));
        rest = rest.get(512 + size.next_multiple_of(512)..).unwrap_or_default();
    }
    found
}

/// The name of the image in an archive, or why there is none, in the order in which an archive is read.
fn imported(archive: &[u8]) -> Result<String, &'static str> {
    let unrecognized = "unrecognized image format";
    match archive.get(..512) {
        None if archive.is_empty() => return Err(unrecognized),
        None => return Err("unexpected EOF"),
        Some(head) if head.iter().all(|byte| *byte == 0) => return Err(unrecognized),
        Some(head) => {
            // The sum of a header counts its own field as spaces.
            let counted =
                head.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
            let sum: u32 = counted.map(u32::from).sum();
            let told = String::from_utf8_lossy(&head[148..156]);
            let told = told.trim_matches(|c: char| c == '\0' || c == ' ');
            if u32::from_str_radix(told, 8) != Ok(sum) {
                return Err("archive/tar: invalid tar header");
            }
        }
    }
    image_name(archive).ok_or(unrecognized)
}

/// The namespace that a request means.
fn namespace(instance: Option<&ContainerdInstance>) -> Result<&'static str, Status> {
    let instance = instance.copied().unwrap_or_default();
    let Ok(driver) = ContainerDriver::try_from(instance.driver) else {
        return Err(Status::invalid_argument(format!("invalid containerd driver {}", instance.driver)));
    };
    let named = ContainerdNamespace::try_from(instance.namespace);
    match (driver, named) {
        (_, Err(_)) => {
            Err(Status::invalid_argument(format!("invalid containerd namespace {}", instance.namespace)))
        }
        (_, Ok(ContainerdNamespace::NsUnknown)) => {
            Err(Status::invalid_argument("invalid containerd namespace NS_UNKNOWN"))
        }
        (ContainerDriver::Containerd, Ok(ContainerdNamespace::NsCri)) => {
            Err(Status::invalid_argument("cannot use CRI namespace with containerd driver"))
        }
        (ContainerDriver::Containerd, Ok(ContainerdNamespace::NsSystem)) => Ok("inmem"),
        (ContainerDriver::Cri, Ok(ContainerdNamespace::NsSystem)) => Ok("system"),
        (ContainerDriver::Cri, Ok(ContainerdNamespace::NsCri)) => Ok("k8s.io"),
    }
}

fn legacy_namespace(number: i32) -> Result<&'static str, Status> {
    match ContainerdNamespace::try_from(number) {
        Ok(ContainerdNamespace::NsSystem) => Ok("system"),
        Ok(ContainerdNamespace::NsCri) => Ok("k8s.io"),
        Ok(ContainerdNamespace::NsUnknown) => Err(Status::invalid_argument("invalid namespace NS_UNKNOWN")),
        Err(_) => Err(Status::invalid_argument(format!("invalid namespace {number}"))),
    }
}

/// A name in full, or the refusal of one that is none.
fn parsed(name: &str) -> Result<String, Status> {
    reference::normalized(name)
        .map_err(|why| Status::unknown(format!("failed to parse image reference {name:?}: {why}")))
}

impl Caller {
    /// The system that an installer of this name would put on the disk; `None` when no registry has it.
    pub(super) fn installer(&self, reference: &str) -> Option<BootImage> {
        let installer = Installer::parse(reference)?;
        let arch =
            self.read(|machines, _| machines.get(self.vmid)?.image().map(|image| image.arch.clone()))?;
        self.shared.read(|world, _| {
            let minor = installer.talos.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok())?;
            // Releases before 1.14 have a plain installer too.
            let plain = installer.schematic.is_empty() && minor <= 13;
            // What the factory cannot build an image of, it has no installer of either.
            let file = format!("/image/{}/{}/installer-{arch}.tar", installer.schematic, installer.talos);
            let known =
                world.factory.has_version(&installer.talos) && (plain || world.factory.asset(&file).is_ok());
            known.then(|| BootImage {
                talos: installer.talos.clone(),
                schematic: installer.schematic.clone(),
                platform: installer.platform.clone(),
                arch,
                extensions: world.factory.extensions_of(&installer.schematic),
            })
        })
    }

    /// Whether some registry has an image of this name.
    fn exists(&self, reference: &str) -> bool {
        let installer = reference.contains("installer");
        if installer { self.installer(reference).is_some() } else { is_published(reference) }
    }

    /// Waits for the container runtime, and for a registry that answers.
    async fn wait_for_registry(&self, reference: &str) -> Result<(), Status> {
        let mut changes = self.shared.subscribe();
        loop {
            let reached = self.read(|machines, _| {
                let node = machines.get(self.vmid).and_then(|m| m.node());
                node.is_none_or(|node| machines.reaches_image(&node.settings, reference))
            });
            if reached {
                return Ok(());
            }
            if changes.changed().await.is_err() {
                return Err(Status::unavailable("the machine is gone"));
            }
        }
    }

    /// Waits for the runtime that has a namespace. That of Talos itself is always there.
    async fn wait_for(&self, space: &str) -> Result<(), Status> {
        if space == "inmem" { Ok(()) } else { self.wait_for_containerd().await }
    }

    pub(super) async fn wait_for_containerd(&self) -> Result<(), Status> {
        let up = self.read(|machines, now| {
            machines.get(self.vmid).and_then(|m| m.node()).is_some_and(|node| node.cri_from <= now)
        });
        if up {
            return Ok(());
        }
        self.shared.clock().sleep(timing::NO_CONTAINERD).await;
        Err(Status::unknown(
            "connection error: desc = \"transport: Error while dialing: dial unix:///run/containerd/containerd.sock: timeout\"",
        ))
    }

    /// Fetches an image by the older call.
    pub(super) async fn pull_image(&self, number: i32, reference: &str) -> Result<(), Status> {
        let space = legacy_namespace(number)?;
        let name = parsed(reference)?;
        self.wait_for_containerd().await?;
        self.fetch(space, &name).await.map(|_| ())
    }

    /// Fetches an image; says whether it was there already.
    async fn fetch(&self, space: &str, reference: &str) -> Result<bool, Status> {
        if self.has_image(space, reference) {
            return Ok(true);
        }
        self.wait_for_registry(reference).await?;
        if !self.exists(reference) {
            return Err(Status::not_found(format!("error pulling image: {}", not_found(reference))));
        }
        self.shared.clock().sleep(timing::PULL).await;
        self.act(|machines, now| {
            machines.keep_image(self.vmid, space, reference, now);
            Ok(false)
        })
        .await
    }

    fn has_image(&self, space: &str, reference: &str) -> bool {
        self.images(space).iter().any(|(name, _)| name == reference || pinned(name) == reference)
    }

    /// The images of a namespace: those of the machine's own components, and those that were fetched.
    fn images(&self, space: &str) -> Vec<(String, jiff::Timestamp)> {
        self.read(|machines, now| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let Some(node) = machine.node() else { return vec![] };
            let images = &node.settings.images;
            let own: Vec<String> = match space {
                "system" => {
                    let etcd = node.is_control_plane() && machine.has_etcd_data();
                    let etcd = etcd.then(|| format!("registry.k8s.io/etcd:v{}", machine.profile().etcd));
                    etcd.into_iter()
                        .chain((node.kubelet_from <= now).then(|| images.kubelet.clone()))
                        .collect()
                }
                "k8s.io" => {
                    let pods = machines.pods_on(self.vmid).into_iter().map(|(_, _, image)| image);
                    let mut all: Vec<String> = pods.collect();
                    if node.api_server_from.is_some_and(|at| at <= now) {
                        all.push(images.api_server.clone());
                        all.push(images.controller_manager.clone());
                        all.push(images.scheduler.clone());
                    }
                    if !all.is_empty() {
                        all.push(super::containers::SANDBOX.to_owned());
                    }
                    all
                }
                _ => vec![],
            };
            let prefix = format!("{space} ");
            let fetched = machine
                .disk
                .images
                .iter()
                .filter_map(|(key, at)| Some((key.strip_prefix(&prefix)?.to_owned(), *at)));
            own.into_iter()
                .filter(|name| !name.is_empty())
                .map(|name| (name, node.began))
                .chain(fetched)
                .collect()
        })
    }

    /// Each image under its name, its pinned name and its digest, as containerd lists it.
    fn listed(&self, space: &str) -> Vec<(String, String, jiff::Timestamp)> {
        let mut all: Vec<_> = self
            .images(space)
            .into_iter()
            .flat_map(|(name, at)| {
                let hash = digest(name.split('@').next().unwrap_or(&name));
                let names = [name.clone(), pinned(&name), hash.clone()];
                names.map(|name| (name, hash.clone(), at))
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }

    pub(super) fn legacy_images(&self, number: i32) -> Answer<BoxStream<wire::ImageListResponse>> {
        let list = self.listed(legacy_namespace(number)?).into_iter().map(|(name, digest, at)| {
            Ok(wire::ImageListResponse {
                metadata: None,
                name,
                digest,
                size: SIZE,
                created_at: Some(stamp(at)),
            })
        });
        Ok(Response::new(stream::iter(list.collect::<Vec<_>>()).boxed()))
    }
}

#[tonic::async_trait]
impl ImageService for Caller {
    async fn list(
        &self,
        request: Request<wire::ImageServiceListRequest>,
    ) -> Answer<BoxStream<wire::ImageServiceListResponse>> {
        let space = namespace(request.into_inner().containerd.as_ref())?;
        self.wait_for(space).await?;
        let list = self.listed(space).into_iter().map(|(name, digest, at)| {
            let labels = [("io.cri-containerd.image".to_owned(), "managed".to_owned())].into();
            Ok(wire::ImageServiceListResponse {
                name,
                digest,
                size: SIZE,
                created_at: Some(stamp(at)),
                labels,
            })
        });
        Ok(Response::new(stream::iter(list.collect::<Vec<_>>()).boxed()))
    }

    async fn pull(
        &self,
        request: Request<wire::ImageServicePullRequest>,
    ) -> Answer<BoxStream<wire::ImageServicePullResponse>> {
        use wire::image_service_pull_response::Response as Part;
        let request = request.into_inner();
        let space = namespace(request.containerd.as_ref())?;
        let reference = parsed(&request.image_ref)?;
        self.wait_for(space).await?;
        let known = self.fetch(space, &reference).await?;
        let layer_id: String = digest(&format!("layer of {reference}")).chars().skip(7).take(12).collect();
        let progress = |layer: Layer, offset: i64| {
            let progress = wire::ImageServicePullLayerProgress {
                status: layer.into(),
                elapsed: Some(prost_types::Duration { seconds: 0, nanos: 0 }),
                offset,
                total: SIZE,
            };
            Part::PullProgress(wire::ImageServicePullProgress {
                layer_id: layer_id.clone(),
                progress: Some(progress),
            })
        };
        let mut parts = vec![];
        if !known {
            parts.extend([
                progress(Layer::Downloading, SIZE / 2),
                progress(Layer::Downloading, SIZE),
                progress(Layer::DownloadComplete, SIZE),
                progress(Layer::Extracting, 0),
                progress(Layer::ExtractComplete, 0),
            ]);
        }
        parts.push(Part::Name(pinned(&reference)));
        let parts = parts.into_iter().map(|part| Ok(wire::ImageServicePullResponse { response: Some(part) }));
        Ok(Response::new(stream::iter(parts.collect::<Vec<_>>()).boxed()))
    }

    async fn import(
        &self,
        request: Request<Streaming<wire::ImageServiceImportRequest>>,
    ) -> Answer<wire::ImageServiceImportResponse> {
        use wire::image_service_import_request::Request as Part;
        let mut pieces = request.into_inner();
        // What the server reads first must be there.
        let first = pieces.message().await?.ok_or_else(|| Status::unknown("EOF"))?;
        let Some(Part::Containerd(instance)) = first.request else {
            return Err(Status::invalid_argument("containerd instance is required"));
        };
        let space = namespace(Some(&instance))?;
        self.wait_for(space).await?;
        let failed = |why: &str| Status::internal(format!("failed to import image: {why}"));
        let mut archive = vec![];
        while let Some(piece) = pieces.message().await? {
            match piece.request {
                Some(Part::ImageChunk(chunk)) => archive.extend(chunk.bytes),
                _ => return Err(failed("no image chunk")),
            }
        }
        let name = imported(&archive).map_err(failed)?;
        self.act(|machines, now| {
            machines.keep_image(self.vmid, space, &name, now);
            Ok(())
        })
        .await?;
        Ok(Response::new(wire::ImageServiceImportResponse { name }))
    }

    async fn remove(&self, request: Request<wire::ImageServiceRemoveRequest>) -> Answer<()> {
        let request = request.into_inner();
        let space = namespace(request.containerd.as_ref())?;
        self.wait_for(space).await?;
        let gone =
            self.act(|machines, _| Ok(machines.drop_image(self.vmid, space, &request.image_ref))).await?;
        if gone {
            Ok(Response::new(()))
        } else {
            Err(Status::not_found(format!("image {} not found", request.image_ref)))
        }
    }

    async fn verify(
        &self,
        request: Request<wire::ImageServiceVerifyRequest>,
    ) -> Answer<wire::ImageServiceVerifyResponse> {
        let reference = request.into_inner().image_ref;
        if !reference::is_verifiable(&reference) {
            let words = format!("image reference is invalid: could not parse reference: {reference}");
            return Err(Status::invalid_argument(words));
        }
        let message = "no matched rule".to_owned();
        Ok(Response::new(wire::ImageServiceVerifyResponse { message, ..Default::default() }))
    }
}

#[tonic::async_trait]
impl LifecycleService for Caller {
    async fn install(
        &self,
        _: Request<wire::LifecycleServiceInstallRequest>,
    ) -> Answer<BoxStream<wire::LifecycleServiceInstallResponse>> {
        // A machine of the lab booted from its disk: it is installed.
        Err(Status::already_exists("machine is already installed"))
    }

    /// Installs beside the running system and says how it went by an exit code. It asks no one about etcd.
    async fn upgrade(
        &self,
        request: Request<wire::LifecycleServiceUpgradeRequest>,
    ) -> Answer<BoxStream<wire::LifecycleServiceUpgradeResponse>> {
        use wire::lifecycle_service_install_progress::Response as Part;
        let request = request.into_inner();
        let name = request.source.map(|source| source.image_name).unwrap_or_default();
        if name.is_empty() {
            return Err(Status::invalid_argument("installer image name is required"));
        }
        let space = namespace(request.containerd.as_ref()).map_err(|refusal| {
            let words = format!("rpc error: code = {:?} desc = {}", refusal.code(), refusal.message());
            Status::internal(format!("upgrade failed: {words}"))
        })?;
        let image = self.installer(&name.replace(&digest(&name), "")).or_else(|| {
            // A pinned name is one that was fetched by its tag.
            let fetched = self.images(space).into_iter().find(|(known, _)| pinned(known) == name);
            fetched.and_then(|(known, _)| self.installer(&known))
        });
        let Some(image) = image.filter(|_| self.has_image(space, &name)) else {
            return Err(Status::internal(format!(
                "upgrade failed: installer image {name:?} not found in containerd store: image {name:?}: not found"
            )));
        };
        let caller = self.clone();
        let check = self.read(|machines, _| machines.precheck(self.vmid, &image));
        let work = stream::once(async move {
            caller.shared.clock().sleep(timing::INSTALL).await;
            let talos = image.talos.clone();
            let lines = match check {
                Ok(()) => {
                    caller.shared.with(|world, _| world.machines.install_system(caller.vmid, image));
                    vec![format!("running Talos installer {talos}"), "installation complete".to_owned()]
                }
                Err(words) => {
                    return (vec![format!("running Talos installer {talos}"), format!("Error: {words}")], 1);
                }
            };
            (lines, 0)
        });
        let parts = work.flat_map(|(lines, code)| {
            let lines = lines.into_iter().map(|line| Part::Message(format!("{line}\n")));
            let parts = lines.chain([Part::ExitCode(code)]).map(|part| {
                let progress = wire::LifecycleServiceInstallProgress { response: Some(part) };
                Ok(wire::LifecycleServiceUpgradeResponse { progress: Some(progress) })
            });
            stream::iter(parts.collect::<Vec<_>>())
        });
        Ok(Response::new(parts.boxed()))
    }
}
