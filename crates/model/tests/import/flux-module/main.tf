module "example_cluster" {
  source  = "git::https://git.example.com/me/tf-modules.git//modules/proxmox-talos-k8s-cluster?ref=v1.1.0"
  image   = { version = "v1.12.6", update_version = "v1.12.6", schematic_path = "image/schematic.yaml" }
  cluster = { name = "copse", vip = "10.88.5.10", gateway = "10.88.0.1", proxmox_cluster = "ridge", kubernetes_version = "v1.35.3", allow_scheduling_on_control_plane_nodes = true }
  flux_bootstrap_repo = { username = "me", name = "flux-copse" }
  nodes = {
    "ctrl-00" = { host_node = "ridge", machine_type = "controlplane", ip = "10.88.5.1", network_bridge = "vmbr88", vm_id = 800, cpu = 2, ram_dedicated = 2048, igpu = false }
    "ctrl-01" = { host_node = "ridge", machine_type = "controlplane", ip = "10.88.5.2", network_bridge = "vmbr88", vm_id = 801, cpu = 2, ram_dedicated = 2048, igpu = false }
    "ctrl-02" = { host_node = "ridge", machine_type = "controlplane", ip = "10.88.5.3", network_bridge = "vmbr88", vm_id = 802, cpu = 2, ram_dedicated = 2048 }
  }
}
