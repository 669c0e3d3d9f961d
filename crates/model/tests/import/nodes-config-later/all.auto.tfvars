cluster_name          = "orchard"
cluster_domain        = "cluster.local"
external_api_endpoint = "api.orchard.example"
network = { gateway = "10.60.20.1", vip = "10.60.20.10", api_lb_vip = "10.60.20.9", cidr_prefix = 24, dns_servers = ["10.60.20.1"], bridge = "vmbr0", vlan_id = 620 }
proxmox_cluster  = "barn"
versions         = { talos = "v1.12.6", kubernetes = "1.35.2" }
talos_image      = { schematic_path = "talos/image/schematic.yaml.tftpl", update_version = "v1.13.9" }
kubernetes_image = { update_version = "1.35.4" }
proxmox          = { name = "barn", cluster_name = "barn", endpoint = "https://barn:8006", insecure = true, username = "root", api_token = "root@pam!tofu=11111111-2222-3333-4444-555555555555" }
enable_lb        = true
lb_nodes = {
  lb-00 = { host_node = "barn", ip = "10.60.20.5", mac_address = "bc:24:11:0a:aa:05", vm_id = 8005 }
}
auth_pass = "hunter22"
nodes_config = {
  "ctrl-00" = { machine_type = "controlplane", ip = "10.60.20.11", mac_address = "bc:24:11:0a:01:01", vm_id = 8101, upgrade = false }
  "ctrl-01" = { machine_type = "controlplane", ip = "10.60.20.12", mac_address = "bc:24:11:0a:01:02", vm_id = 8102, datastore_id = "quick", upgrade = false }
  "ctrl-02" = { machine_type = "controlplane", ip = "10.60.20.13", mac_address = "bc:24:11:0a:01:03", vm_id = 8103, upgrade = false }
  "work-00" = { machine_type = "worker", ip = "10.60.20.21", mac_address = "bc:24:11:0a:01:04", vm_id = 8201, root_disk_size = 60, upgrade = true }
}
