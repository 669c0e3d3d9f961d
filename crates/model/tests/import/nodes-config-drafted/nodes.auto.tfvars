# As a guide shows it: placeholder addresses of cards, a device without its description, one key of a disk.
network = { gateway = "10.60.20.1", vip = "10.60.20.10", cidr_prefix = 24, dns_servers = ["10.60.20.1"], bridge = "vmbr0" }
versions = { talos = "v1.12.6", kubernetes = "1.35.2" }
cluster_name = "orchard"
proxmox = { name = "barn", endpoint = "https://barn:8006", insecure = true }
nodes_config = {
  "ctrl-00" = { machine_type = "controlplane", ip = "10.60.20.11", mac_address = "bc:24:11:XX:XX:X1", vm_id = 8101 }
  "work-02" = {
    machine_type = "worker"
    ip           = "10.60.20.23"
    mac_address  = "bc:24:11:XX:XX:X4"
    vm_id        = 8203
    disks = { longhorn = { size = "500G" } }
  }
  "work-03" = {
    machine_type = "worker", ip = "10.60.20.24", mac_address = "bc:24:11:0a:00:05", vm_id = 8204
    igpu = true, gpu_devices = ["0000:41:00.0"]
  }
  "metal-01" = { machine_type = "worker", ip = "10.60.20.30", is_external = true }
}
