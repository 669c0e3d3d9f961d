# A cluster as people describe it with the siderolabs/talos provider: three control planes and a worker that wait in
# maintenance, configured, bootstrapped, watched until they are healthy, and reset when all is destroyed.

terraform {
  required_providers {
    talos = { source = "siderolabs/talos" }
  }
}

variable "net" { type = string }
variable "factory" { type = string }
variable "label" { type = string }

provider "talos" {
  image_factory_url = var.factory
}

locals {
  control  = { for n in ["11", "12", "13"] : n => "${var.net}.${n}" }
  work     = { "21" = "${var.net}.21" }
  endpoint = "https://${var.net}.11:6443"
  talos    = "v1.13.9"
}

# Images.

data "talos_image_factory_versions" "all" {
  filters = { stable_versions_only = true }
}

data "talos_image_factory_extensions_versions" "agent" {
  talos_version = local.talos
  filters       = { names = ["qemu-guest-agent"] }
}

data "talos_image_factory_overlays_versions" "all" {
  talos_version = local.talos
}

resource "talos_image_factory_schematic" "agent" {
  schematic = yamlencode({
    customization = {
      systemExtensions = { officialExtensions = data.talos_image_factory_extensions_versions.agent.extensions_info[*].name }
    }
  })
}

data "talos_image_factory_urls" "agent" {
  talos_version = local.talos
  schematic_id  = talos_image_factory_schematic.agent.id
  platform      = "nocloud"
}

# Machines.

resource "talos_machine_secrets" "all" {
  talos_version = local.talos
}

data "talos_machine_configuration" "role" {
  for_each           = toset(["controlplane", "worker"])
  cluster_name       = "tofu"
  cluster_endpoint   = local.endpoint
  machine_type       = each.key
  machine_secrets    = talos_machine_secrets.all.machine_secrets
  talos_version      = local.talos
  kubernetes_version = "v1.35.4"
}

data "talos_client_configuration" "all" {
  cluster_name         = "tofu"
  client_configuration = talos_machine_secrets.all.client_configuration
  endpoints            = values(local.control)
  nodes                = concat(values(local.control), values(local.work))
}

resource "talos_machine_configuration_apply" "control" {
  for_each                    = local.control
  client_configuration        = talos_machine_secrets.all.client_configuration
  machine_configuration_input = data.talos_machine_configuration.role["controlplane"].machine_configuration
  node                        = each.value
  on_destroy                  = { reset = true, graceful = false, reboot = true }
}

resource "talos_machine_configuration_apply" "work" {
  for_each                    = local.work
  client_configuration        = talos_machine_secrets.all.client_configuration
  machine_configuration_input = data.talos_machine_configuration.role["worker"].machine_configuration
  node                        = each.value
  apply_mode                  = "staged_if_needing_reboot"
  on_destroy                  = { reset = true, graceful = true, reboot = true }
  config_patches = [
    yamlencode({ machine = { nodeLabels = { "example.org/tofu" = var.label } } }),
  ]
  # A worker is given back while its control planes are still there.
  depends_on = [talos_machine_bootstrap.first]
}

resource "talos_machine_bootstrap" "first" {
  depends_on           = [talos_machine_configuration_apply.control]
  client_configuration = talos_machine_secrets.all.client_configuration
  node                 = local.control["11"]
}

resource "talos_cluster_kubeconfig" "all" {
  depends_on           = [talos_machine_bootstrap.first]
  client_configuration = talos_machine_secrets.all.client_configuration
  node                 = local.control["11"]
}

data "talos_machine_disks" "system" {
  depends_on           = [talos_machine_bootstrap.first]
  client_configuration = talos_machine_secrets.all.client_configuration
  node                 = local.control["12"]
  selector             = "disk.size > 6u * GB && !disk.readonly && !disk.cdrom"
}

data "talos_cluster_health" "all" {
  depends_on           = [talos_machine_configuration_apply.work, talos_cluster_kubeconfig.all]
  client_configuration = talos_machine_secrets.all.client_configuration
  endpoints            = values(local.control)
  control_plane_nodes  = values(local.control)
  worker_nodes         = values(local.work)
  timeouts             = { read = "5m" }
}

output "schematic" { value = talos_image_factory_schematic.agent.id }
output "urls" { value = data.talos_image_factory_urls.agent.urls }
output "newest" { value = data.talos_image_factory_versions.all.talos_versions }
output "extensions" { value = data.talos_image_factory_extensions_versions.agent.extensions_info }
output "overlays" { value = data.talos_image_factory_overlays_versions.all.overlays_info }
output "disks" { value = data.talos_machine_disks.system.disks[*].dev_path }
output "host" { value = talos_cluster_kubeconfig.all.kubernetes_client_configuration.host }
output "kubeconfig" {
  value     = talos_cluster_kubeconfig.all.kubeconfig_raw
  sensitive = true
}
output "talosconfig" {
  value     = data.talos_client_configuration.all.talos_config
  sensitive = true
}
