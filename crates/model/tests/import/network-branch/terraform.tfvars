proxmox_config = { host = "192.168.7.100", port = 8006, api_token = "root@pam!terraform=11111111-2222-3333-4444-555555555555", insecure = true }
network_config = {
  cidr = "10.77.0.0/24", gateway = "10.77.0.1", create_bridge = true, bridge_name = "vmbr77", bridge_cidr = "10.77.0.1/24", vlan_id = 77
  resource_pool_id = "fen", enable_firewall = true, ipsets = { monitoring = { cidrs = ["10.50.0.0/24"] } }
}
cluster_config = { name = "fen", talos_version = "v1.13.9", vip = { enabled = true, ip = "10.77.0.10" } }
node_config    = { controlplane_count = 3, worker_count = 5, controlplane_ip_start = 20, worker_ip_start = 30 }
