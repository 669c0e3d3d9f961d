// Everything that people write instead of a plain value.
locals {
  net      = var.network
  prefix   = "${var.site}-${var.short ? "k" : "kube"}" # a conditional in a template
  half     = var.memory / 2
  control  = { for i in range(3) : format("%s-ctrl-%02d", local.prefix, i) => {
    machine_type = "controlplane"
    ip           = cidrhost(local.net.cidr, 11 + i)
    vm_id        = 900 + i
    host_node    = element(var.hosts, i)
    cpu          = lookup(var.sizes, "control", 2)
  } }
  workers = {
    for index, one in var.workers :
    "${local.prefix}-work-${index}" => merge(var.defaults, {
      ip    = cidrhost(local.net.cidr, 21 + index)
      vm_id = 920 + index
      ram_dedicated = coalesce(one.memory, local.half * 3)
      host_node = one.host
    }, one.big ? { cpu = 8 } : {})
    if one.enabled
  }
  by_host = { for name, node in merge(local.control, local.workers) : node.host_node => name... }
  /* not used by the module, and not in the way */
  banner = <<-EOT
    %{~ for host, names in local.by_host ~}
    ${host}: ${length(names)}
    %{~ endfor ~}
  EOT
}

module "cluster" {
  for_each = toset([var.site])
  source   = "./talos"
  image = {
    version   = "v${var.talos}"
    schematic = <<-EOT
      customization:
        systemExtensions:
          officialExtensions:
            - siderolabs/qemu-guest-agent
    EOT
  }
  cluster = {
    name               = each.value
    gateway            = cidrhost(local.net.cidr, 1)
    vip                = cidrhost(local.net.cidr, 10)
    kubernetes_version = try(var.kubernetes, "v1.35.2")
    proxmox_cluster    = upper(each.key)
    note               = trimspace(local.banner)
  }
  nodes = merge(local.control, local.workers)
}
