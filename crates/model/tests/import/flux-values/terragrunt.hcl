inputs = {
  image   = { version = "v1.12.6", schematic_path = "image/schematic.yaml", file_prefix = "prod" }
  cluster = { name = "copse-prod", vip = "10.89.10.10", gateway = "10.89.0.100", proxmox_cluster = "ridge", kubernetes_version = "v1.34.1", pod_subnet = "10.244.0.0/16", service_subnet = "10.43.0.0/16" }
  flux_bootstrap_repo = { username = "me", name = "live", branch = "production" }
  nodes = {
    "ctrl-00" = { host_node = "ridge", machine_type = "controlplane", datastore_id = "big", ip = "10.89.10.1", network_bridge = "vmbr89", vm_id = 800, cpu = 2, ram_dedicated = 4096, update = false }
    "work-00" = { host_node = "ridge", machine_type = "worker", datastore_id = "big", ip = "10.89.10.21", network_bridge = "vmbr89", vm_id = 821, cpu = 2, ram_dedicated = 4096, disk_size = 100, update = false }
  }
}
