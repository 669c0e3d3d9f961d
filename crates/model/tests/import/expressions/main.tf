variable "net" { default = "10.90.0.0/24" }
variable "workers" { default = 2 }
locals {
  role_memory = { controlplane = 4096, worker = 8192 }
  prefix      = "node"
  base        = { host_node = "pine", cpu = 2 + 2 }
  workers     = { for i in range(var.workers) : format("%s-%02d", local.prefix, i) => merge(local.base, {
    machine_type  = "worker"
    ip            = cidrhost(var.net, 20 + i)
    ram_dedicated = lookup(local.role_memory, "worker", 1024)
    vm_id         = 900 + i
  }) }
  loop = local.loop
}
module "talos" {
  source  = "./talos"
  image   = { version = coalesce(null, "v1.12.6"), schematic_path = "schematic.yaml" }
  cluster = {
    name               = "${local.prefix}-${var.workers > 1 ? "many" : "one"}"
    gateway            = cidrhost(var.net, 1)
    kubernetes_version = data.http.version.body
    vip                = local.loop
  }
  nodes = merge(local.workers, {
    ctrl-00 = merge(local.base, { machine_type = "controlplane", ip = cidrhost(var.net, 11), vm_id = 800, ram_dedicated = local.role_memory["controlplane"], mac_address = random_mac.this.result })
  })
}
