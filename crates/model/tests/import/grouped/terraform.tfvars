proxmox_config = { endpoint = "https://192.168.40.1:8006/", api_token = "ops@pve!tofu=11111111-2222-3333-4444-555555555555", insecure = true, ccm_config = { enabled = true } }
network_config = { cidr = "192.168.40.0/24", gateway = "192.168.40.1", bridge = "vmbr0", interface = "eth0" }
cluster_config = { name = "meadow", talos_version = "v1.12.6", vip = { enabled = true, ip = "192.168.40.100" } }
node_config       = { controlplane_count = 3, worker_count = 3, controlplane_ip_start = 10, worker_ip_start = 20 }
node_distribution = { "pve" = { controlplane_count = 3, worker_count = 3 } }
template_config   = { controlplane_id = 998, worker_id = 999, node = "pve" }
resource_config   = { controlplane = { memory = 4096, cpu_cores = 4, disk_size = 20 }, worker = { memory = 8192, cpu_cores = 8, disk_size = 50 }, cpu_type = "x86-64-v2-AES" }
vm_id_ranges      = { controlplane_min = 2000, controlplane_max = 2999, worker_min = 3000, worker_max = 3999 }
tagging_config    = { common = ["talos", "terraform"], extra = ["meadow"] }
