module "cluster" {
  source  = "registry.example.com/namespace/tf-module-proxmox-talos/talos"
  version = "1.2.1"

  configuration = {
    cluster = {
      name               = "heath"
      datastore          = { id = "nas", node = "alpha" }
      talos              = { version = "v1.12.6" }
      kubernetes_version = "v1.35.0"
      options            = { disable_default_cni = true, disable_kube_proxy = true, disable_scheduling_on_control_plane = false }
    }
    host_pool = { alpha = { datastore_id = "local-lvm" } }
    control_plane_nodes = {
      nodes     = [{ size = "control_plane", networks = { dmz = { address = "192.168.44.21/24", gateway = "192.168.44.1" } } }]
      host_pool = ["alpha"]
      vip       = { enabled = false, address = "" }
    }
    worker_nodes            = { nodes = [], host_pool = ["alpha"] }
    node_size_configuration = { control_plane = { cpu = 4, memory = 8192, os_disk = 128 } }
  }
}
