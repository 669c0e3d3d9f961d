locals {
  subnet = "10.96.128"
}

module "talos" {
  source = "./talos"

  image = { version = "v1.12.6", schematic = file("${path.module}/talos/image/schematic.yaml") }
  cilium = {
    install = file("${path.module}/talos/inline-manifests/cilium-install.yaml")
    values  = file("${path.module}/../k8s/cilium/values.yaml")
  }
  cluster = {
    name = "spinney", endpoint = "${local.subnet}.100", gateway = "${local.subnet}.1", dns = ["${local.subnet}.1"]
    talos_version = "v1.12.6", proxmox_cluster = "homelab"
  }
  nodes = {
    "ctrl-00.spinney.example" = { host_node = "larch", machine_type = "controlplane", ip = "${local.subnet}.100", mac_address = "BC:24:11:0E:00:01", vm_id = 800, cpu = 4, ram_dedicated = 4096, vlan_id = 9 }
    "work-00" = { host_node = "larch", machine_type = "worker", ip = "${local.subnet}.110", mac_address = "BC:24:11:0E:00:02", vm_id = 810, cpu = 4, ram_dedicated = 4096, igpu = true, vlan_id = 9 }
  }
}

module "volumes" {
  source     = "./bootstrap/volumes"
  depends_on = [module.talos]
  volumes    = module.talos.something
}
