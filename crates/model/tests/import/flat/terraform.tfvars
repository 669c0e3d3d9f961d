proxmox_api_token = "root@pam!terraform=11111111-2222-3333-4444-555555555555"
proxmox_endpoint  = "https://192.168.40.1:8006/"
cluster_name      = "meadow"
talos_version     = "v1.12.6"
cluster_vip_ip    = "192.168.40.100"
network_cidr      = "192.168.40.0/24"
network_gateway   = "192.168.40.1"
worker_memory     = 16384
node_distribution = {
  "pve1" = { controlplane_count = 1, worker_count = 2 }
  "pve2" = { controlplane_count = 1, worker_count = 2 }
  "pve3" = { controlplane_count = 1, worker_count = 2 }
}
