"""Puts Talos machines into a served lab, through its Proxmox API, as anybody could: one image a version and platform, one
VM a machine with a static address, switched on. Waits until each answers on port 50000.

    machines.py UP_JSON ADDRESS=VERSION[/PLATFORM]...

UP_JSON is what `talosmith lab up --json` printed."""

import json
import socket
import ssl
import sys
import time
import urllib.parse
import urllib.request

lab = json.loads(open(sys.argv[1]).readline())
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE


def call(method, url, body=None, headers=None):
    data = None
    if isinstance(body, dict):
        data = urllib.parse.urlencode(body).encode()
    elif body is not None:
        data = body.encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer)


def proxmox(method, path, **body):
    headers = {"Authorization": "PVEAPIToken=" + lab["root_token"]}
    return call(method, lab["proxmox"] + "/api2/json" + path, body or None, headers)["data"]


def wait(node, upid):
    while True:
        status = proxmox("GET", f"/nodes/{node}/tasks/{urllib.parse.quote(upid)}/status")
        if status["status"] == "stopped":
            if status["exitstatus"] != "OK":
                sys.exit(f"{upid}: {status['exitstatus']}")
            return
        time.sleep(0.05)


node = proxmox("GET", "/nodes")[0]["node"]
schematic = call("POST", lab["factory"] + "/schematics", "customization: {}\n")["id"]
images = {}
wanted = [machine.split("=") for machine in sys.argv[2:]]
for _, system in wanted:
    if system in images:
        continue
    version, _, platform = system.partition("/")
    platform = platform or "nocloud"
    file = f"talos-{version}-{platform}.qcow2"
    url = f"{lab['factory']}/image/{schematic}/{version}/{platform}-amd64.qcow2"
    wait(node, proxmox("POST", f"/nodes/{node}/storage/local/download-url", content="import", filename=file, url=url,
                       **{"verify-certificates": 0}))
    images[system] = f"local:import/{file}"
for number, (address, system) in enumerate(wanted, 1):
    vmid = 900 + number
    gateway = address.rsplit(".", 1)[0] + ".1"
    wait(node, proxmox("POST", f"/nodes/{node}/qemu", vmid=vmid, name=f"m{number}", memory=4096, cores=2,
                       scsihw="virtio-scsi-single", net0="virtio,bridge=vmbr0", ide2="local-lvm:cloudinit",
                       ipconfig0=f"ip={address}/24,gw={gateway}", nameserver="127.0.0.1", boot="order=scsi0",
                       scsi0=f"local-lvm:0,import-from={images[system]}"))
    upid = proxmox("PUT", f"/nodes/{node}/qemu/{vmid}/resize", disk="scsi0", size="20G")
    if upid:
        wait(node, upid)
    wait(node, proxmox("POST", f"/nodes/{node}/qemu/{vmid}/status/start"))
for address, _ in wanted:
    while True:
        try:
            socket.create_connection((address, 50000), 1).close()
            break
        except OSError:
            time.sleep(0.1)
