# What two of the systems that Talosmith grew from do with bpg/proxmox: a template with a full clone of it, and a VM from an
# image that is downloaded and imported, with cloud-init, agent and tags.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

variable "image_url" { type = string }
variable "cores" { type = number }
variable "memory" { type = number }
variable "disk" { type = number }

provider "proxmox" {
  insecure = true
}

resource "proxmox_virtual_environment_pool" "k8s" {
  pool_id = "k8s"
  comment = "made by OpenTofu"
}

resource "proxmox_virtual_environment_download_file" "talos" {
  for_each     = toset(["pve1", "pve2"])
  node_name    = each.key
  datastore_id = "local"
  content_type = "import"
  file_name    = "talos-nocloud.qcow2"
  url          = var.image_url
  overwrite    = false
}

resource "proxmox_virtual_environment_vm" "template" {
  name      = "talos-template"
  node_name = "pve1"
  vm_id     = 9000
  template  = true
  started   = false
  machine   = "q35"
  tags      = ["talos", "template"]

  cpu {
    cores = 2
    type  = "x86-64-v2-AES"
  }
  memory { dedicated = 2048 }
  scsi_hardware = "virtio-scsi-single"
  disk {
    datastore_id = "local-lvm"
    import_from  = proxmox_virtual_environment_download_file.talos["pve1"].id
    interface    = "scsi0"
    size         = 10
    iothread     = true
    discard      = "on"
    ssd          = true
  }
  network_device { bridge = "vmbr0" }
  operating_system { type = "l26" }
  agent { enabled = false }
}

resource "proxmox_virtual_environment_vm" "clone" {
  name      = "talos-clone"
  node_name = "pve1"
  vm_id     = 9001
  pool_id   = proxmox_virtual_environment_pool.k8s.pool_id
  tags      = ["clone", "talos"]
  started   = false

  clone {
    vm_id = proxmox_virtual_environment_vm.template.vm_id
    full  = true
  }
  cpu {
    cores = var.cores
    type  = "x86-64-v2-AES"
  }
  memory { dedicated = var.memory }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi0"
    size         = var.disk
    iothread     = true
    discard      = "on"
    ssd          = true
  }
  network_device { bridge = "vmbr0" }
  agent { enabled = false }
}

resource "proxmox_virtual_environment_vm" "node" {
  name            = "talos-node"
  description     = "made by OpenTofu"
  node_name       = "pve2"
  vm_id           = 9002
  machine         = "q35"
  bios            = "seabios"
  on_boot         = true
  stop_on_destroy = true
  tags            = ["controlplane", "talos"]

  agent {
    enabled = true
    timeout = "2m"
  }
  cpu {
    cores = var.cores
    type  = "x86-64-v2-AES"
  }
  memory { dedicated = var.memory }
  scsi_hardware = "virtio-scsi-single"
  boot_order    = ["scsi0"]
  disk {
    datastore_id = "local-lvm"
    import_from  = proxmox_virtual_environment_download_file.talos["pve2"].id
    interface    = "scsi0"
    size         = var.disk
    iothread     = true
    discard      = "on"
    ssd          = true
    cache        = "none"
  }
  network_device { bridge = "vmbr0" }
  serial_device {}
  operating_system { type = "l26" }
  initialization {
    datastore_id = "local-lvm"
    ip_config {
      ipv4 {
        address = "10.25.150.77/24"
        gateway = "10.25.150.1"
      }
    }
    dns { servers = ["10.25.150.1"] }
  }
}

output "addresses" {
  value = proxmox_virtual_environment_vm.node.ipv4_addresses
}
