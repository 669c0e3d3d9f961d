# The VMs of the benchmark, as people make them with bpg/proxmox.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

variable "image_url" { type = string }
variable "nodes" { type = map(object({ vm_id = number, ip = string })) }

provider "proxmox" {
  insecure = true
}

resource "proxmox_virtual_environment_download_file" "talos" {
  node_name    = "pve1"
  datastore_id = "local"
  content_type = "import"
  file_name    = "talos-nocloud-amd64.qcow2"
  url          = var.image_url
  overwrite    = false
}

resource "proxmox_virtual_environment_vm" "this" {
  for_each      = var.nodes
  node_name     = "pve1"
  name          = each.key
  description   = "Talos Control Plane"
  tags          = ["control-plane", "k8s"]
  on_boot       = true
  vm_id         = each.value.vm_id
  machine       = "q35"
  scsi_hardware = "virtio-scsi-single"
  bios          = "seabios"

  # Waiting for the agent is not needed: the addresses are static, and talosctl tries until the machines answer.
  agent {
    enabled = true
    wait_for_ip { disabled = true }
  }
  cpu {
    cores = 2
    type  = "host"
  }
  memory { dedicated = 2048 }
  network_device { bridge = "vmbr0" }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi0"
    iothread     = true
    cache        = "writethrough"
    discard      = "on"
    ssd          = true
    size         = 10
    import_from  = proxmox_virtual_environment_download_file.talos.id
  }
  boot_order = ["scsi0"]
  operating_system { type = "l26" }
  initialization {
    datastore_id = "local-lvm"
    ip_config {
      ipv4 {
        address = "${each.value.ip}/24"
        gateway = "127.204.5.254"
      }
    }
  }
}
