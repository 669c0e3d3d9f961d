provider "proxmox" {
  endpoint  = var.proxmox.endpoint
  insecure  = var.proxmox.insecure
  api_token = var.proxmox.api_token
}

module "talos" {
  source = "./talos"

  providers = { proxmox = proxmox }

  image = {
    version        = "v1.12.6"
    update_version = "v1.13.9" # renovate: github-releases=siderolabs/talos
    schematic      = file("${path.module}/talos/image/schematic.yaml")
  }
  cilium  = { values = file("${path.module}/k8s/infra/cilium/values.yaml"), install = file("${path.module}/talos/inline-manifests/cilium-install.yaml") }
  coredns = { install = file("${path.module}/talos/inline-manifests/coredns-install.yaml") }
  cluster = {
    name = "grove", endpoint = "api.grove.example", gateway = "10.61.0.1", vip = "10.61.0.10"
    talos_version = "v1.12.6", proxmox_cluster = "grove", kubernetes_version = "1.35.0"
  }
  nodes = {
    "ctrl-00" = { host_node = "oak", machine_type = "controlplane", ip = "10.61.0.11", mac_address = "bc:24:11:0b:00:01", vm_id = 8101, cpu = 6, ram_dedicated = 6144, update = false, igpu = false }
    "work-00" = {
      host_node = "oak", machine_type = "worker", ip = "10.61.0.21", mac_address = "bc:24:11:0b:00:02", vm_id = 8201, cpu = 8, ram_dedicated = 10240, update = true
      disks = { longhorn = { device = "/dev/sdb", size = "180G", type = "scsi", mountpoint = "/var/lib/longhorn" } }
    }
  }
}
