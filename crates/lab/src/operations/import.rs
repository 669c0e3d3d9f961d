//! A file that was uploaded: it is checked and put in its place by a task.

use std::time::Duration;

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::Volume;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::work::{Import, Work};
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// Checks where the file goes and starts the task.
pub(crate) fn import(world: &mut World, node: &str, wish: Import, caller: &str) -> Result<String, Refusal> {
    let storage = world.hypervisor.storages.usable(node, &wish.storage).map_err(Refusal::Failed)?;
    if !storage.kind.keeps_files() {
        return Err(Refusal::failed(format!("can't upload to storage type '{}'", storage.kind.as_str())));
    }
    super::download::ending(&wish.content, &wish.filename)?;
    if !storage.content.contains(&wish.content) {
        let text = format!("storage '{}' does not support '{}' content", wish.storage, wish.content);
        return Err(Refusal::failed(text));
    }
    Ok(tasks::begin(world, node, "imgcopy", "", caller, Work::Import(wish)))
}

/// Refuses an image to be imported that is not what its name says. `image` is what its first bytes say, where known.
pub(crate) fn is_image(content: &str, filename: &str, image: Option<&str>) -> Result<(), String> {
    let named = filename
        .rsplit('.')
        .next()
        .filter(|format| content == "import" && matches!(*format, "qcow2" | "vmdk"));
    match (named, image) {
        (Some(named), Some(image)) if named != image => {
            Err("failed to query file information with qemu-img".to_owned())
        }
        _ => Ok(()),
    }
}

impl Import {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        if task.stage == 0 {
            task.log(
                now,
                format!("starting file import from: /var/tmp/pveupload-{:032x}", world.rng.next_u64()),
            );
            match &self.checksum {
                Some((expected, got)) if !expected.eq_ignore_ascii_case(got) => {
                    task.log(now, "calculating checksum...");
                    return Next::fail(format!("checksum mismatch: got '{got}' != expect '{expected}'"));
                }
                Some(_) => task.log(now, "calculating checksum...OK, checksum verified"),
                None => {}
            }
            if let Err(text) = is_image(&self.content, &self.filename, self.image.as_deref()) {
                return Next::fail(text);
            }
            return Next::After(world.rng.around(Duration::from_millis(300)));
        }
        let volid = format!("{}:{}/{}", self.storage, self.content, self.filename);
        let storages = &mut world.hypervisor.storages;
        let Ok(storage) = storages.usable(&task.node, &self.storage) else {
            return Next::fail(format!("storage '{}' does not exist", self.storage));
        };
        let path = storage.path_of(&volid);
        if self.bytes > storage.bytes.saturating_sub(storages.used(&task.node, storage)) {
            return Next::fail("import failed: No space left on device");
        }
        let format = if self.content == "iso" { "iso" } else { volid.rsplit('.').next().unwrap_or("raw") };
        let volume = Volume {
            volid: volid.clone(),
            content: self.content,
            format: format.to_owned(),
            size: self.disk_bytes,
            used: self.bytes,
            vmid: None,
            ctime: now,
            origin: None,
            parent: None,
        };
        storages.insert(&task.node, volume);
        task.log(now, format!("target node: {}", task.node));
        task.log(now, format!("target file: {path}"));
        task.log(now, format!("file size is: {}", self.bytes));
        task.log(now, "finished file import successfully");
        Next::End(Ok(()))
    }
}
