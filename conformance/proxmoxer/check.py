"""What a person does with proxmoxer, against the lab: both logins, VMs from cradle to grave, storage, access, pools, errors."""

import io
import os
import time
import warnings
from urllib.parse import urlparse

warnings.filterwarnings("ignore")

from proxmoxer import ProxmoxAPI, ResourceException  # noqa: E402
from proxmoxer.tools import Tasks  # noqa: E402

address = urlparse(os.environ["LAB_URL"])
host = f"{address.hostname}:{address.port}"
identity, secret = os.environ["LAB_TOKEN"].split("=", 1)
user, name = identity.split("!", 1)
token = ProxmoxAPI(host, user=user, token_name=name, token_value=secret, verify_ssl=False)
root = ProxmoxAPI(host, user="root@pam", password=os.environ["LAB_PASSWORD"], verify_ssl=False)
node = token.nodes("pve1")


def done(upid):
    """Waits for a task; it must end well."""
    status = Tasks.blocking_status(token, upid, timeout=60, polling_interval=0.05)
    assert status["exitstatus"] == "OK", status
    return status


def refused(code, words, call, *args, **options):
    """The call must fail with this status and these words."""
    try:
        call(*args, **options)
    except ResourceException as error:
        assert error.status_code == code, (error.status_code, str(error))
        assert words in str(error), str(error)
        return
    raise AssertionError(f"{words!r} was expected")


assert token.version.get()["version"] == "9.2.11"
assert root.access.permissions.get(path="/")["/"]["Sys.Modify"] == 1
assert {n["node"] for n in token.nodes.get()} == {"pve1", "pve2", "pve3"}

# A VM from cradle to grave.
vmid = int(token.cluster.nextid.get())
done(node.qemu.post(vmid=vmid, name="peer", memory=512, cores=1, scsi0="local-lvm:4", net0="virtio,bridge=vmbr0",
                    ide2="local-lvm:cloudinit", ipconfig0="ip=dhcp", agent=1, tags="a;b", onboot=0))
vm = node.qemu(vmid)
config = vm.config.get()
assert config["name"] == "peer" and config["scsi0"] == f"local-lvm:vm-{vmid}-disk-0,size=4G", config
vm.config.put(cores=2, memory=1024, digest=config["digest"])
refused(500, "checksum mismatch", vm.config.put, cores=3, digest=config["digest"])
done(vm.resize.put(disk="scsi0", size="+4G"))
assert vm.config.get()["scsi0"].endswith("size=8G")
done(vm.status.start.post())
assert vm.status.current.get()["status"] == "running"
vm.config.put(cores=4)
assert {row["key"]: row for row in vm.pending.get()}["cores"]["pending"] == 4
refused(500, "QEMU guest agent is not running", vm.agent.ping.post)
refused(500, f"VM {vmid} is running - destroy failed", vm.delete)
done(vm.status.stop.post())
done(vm.snapshot.post(snapname="before"))
done(vm.snapshot("before").rollback.post())
done(vm.snapshot("before").delete())
done(vm.template.post())
done(vm.clone.post(newid=vmid + 1, name="copy", full=1))
done(node.qemu(vmid + 1).migrate.post(target="pve2"))
assert [row["node"] for row in token.cluster.resources.get(type="vm") if row["vmid"] == vmid + 1] == ["pve2"]
done(token.nodes("pve2").qemu(vmid + 1).delete(purge=1))
done(vm.delete())
refused(500, "does not exist", vm.config.get)

# Storage, with an upload.
image = io.BytesIO(b"ISO" * 1000)
image.name = "tiny.iso"
done(node.storage("local").upload.post(content="iso", filename=image))
assert "local:iso/tiny.iso" in [row["volid"] for row in node.storage("local").content.get(content="iso")]
done(node.storage("local").content("local:iso/tiny.iso").delete())
token.storage.post(storage="extra", type="dir", path="/srv/extra", content="images,iso")
token.storage("extra").put(content="images")
assert token.storage("extra").get()["content"] == "images"
token.storage("extra").delete()

# Access, with what a token may not do.
root.access.roles.post(roleid="Peer", privs="VM.Audit")
root.access.users.post(userid="peer@pve", password="secret-enough")
root.access.acl.put(path="/vms", roles="Peer", users="peer@pve")
limited = ProxmoxAPI(host, user="peer@pve", password="secret-enough", verify_ssl=False)
refused(403, "Permission check failed", limited.nodes("pve1").qemu.post, vmid=990)
value = root.access.users("peer@pve").token("t1").post(privsep=0)["value"]
assert ProxmoxAPI(host, user="peer@pve", token_name="t1", token_value=value, verify_ssl=False).nodes("pve1").qemu.get() is not None
root.access.users("peer@pve").delete()
root.access.roles("Peer").delete()

# Pools, mappings, networks, the firewall, tasks.
token.pools.post(poolid="peers", comment="c")
assert token.pools("peers").get()["comment"] == "c"
token.pools("peers").delete()
token.cluster.mapping.pci.post(id="gpu", map=["node=pve1,path=0000:01:00.0,id=10de:2204"])
assert token.cluster.mapping.pci("gpu").get()["map"] == ["node=pve1,path=0000:01:00.0,id=10de:2204"]
token.cluster.mapping.pci("gpu").delete()
node.network.post(iface="vmbr9", type="bridge", autostart=1)
done(node.network.put())
assert "vmbr9" in [row["iface"] for row in node.network.get(type="bridge")]
token.cluster.firewall.aliases.post(name="office", cidr="192.0.2.0/24")
assert token.cluster.firewall.aliases("office").get()["ipversion"] == 4
token.cluster.firewall.aliases("office").delete()
assert Tasks.decode_upid(node.tasks.get(limit=1)[0]["upid"])["node"] == "pve1"
refused(400, "Parameter verification failed", node.qemu.post, vmid="abc")
refused(501, "not implemented", token.no.such.thing.get)

# A bad secret costs three seconds of the lab's time, which runs twenty times as fast.
began = time.monotonic()
bad = ProxmoxAPI(host, user=user, token_name=name, token_value="wrong", verify_ssl=False)
refused(401, "Authentication failed!", bad.version.get)
assert time.monotonic() - began < 2
print("proxmoxer: ok")
