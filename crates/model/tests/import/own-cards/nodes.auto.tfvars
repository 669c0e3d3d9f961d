talos_image          = { version = "v1.12.6", schematic_path = "talos/image/schematic.yaml" }
talos_cluster_config = { name = "glade", kubernetes_version = "v1.35.3", proxmox_cluster = "glade", extra_manifests = ["https://example.com/v1/crds.yaml", "extra/one.yaml"] }
talos_nodes = {
  "ctrl-00" = {
    host_node = "fir", machine_type = "controlplane", vm_id = 500, cpu = 4, ram_dedicated = 8192, datastore_id = "disks"
    network = { dhcp = false, ip = "10.95.0.40", mac_address = "bc:24:11:0d:00:01", gateway = "10.95.0.1", subnet_mask = "24", device = "vmbr1", vlan_id = 20 }
  }
}
