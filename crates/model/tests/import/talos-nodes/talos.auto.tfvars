proxmox           = { name = "elm", cluster_name = "wood", endpoint = "https://192.168.50.62:8006", insecure = true, username = "root" }
proxmox_api_token = "root@pam!tofu=11111111-2222-3333-4444-555555555555"
talos_image       = { version = "v1.12.6", update_version = "v1.13.9", schematic_path = "talos/image/schematic.yaml" }
talos_cluster_config = {
  name = "wood", vip = "192.168.50.99", gateway = "192.168.50.1", proxmox_cluster = "wood", kubernetes_version = "v1.35.3", gateway_api_version = "v1.4.1"
  cilium  = { bootstrap_manifest_path = "talos/inline-manifests/cilium-install.yaml", values_file_path = "k8s/infra/network/cilium/values.yaml" }
  kubelet = <<-EOT
    extraArgs:
      feature-gates: ImageVolume=true
  EOT
}
talos_nodes = {
  "ctrl-00" = { host_node = "elm", machine_type = "controlplane", ip = "192.168.50.100", mac_address = "BC:24:11:0C:00:01", vm_id = 800, cpu = 8, ram_dedicated = 28672, igpu = true }
  "work-00" = { host_node = "elm", machine_type = "worker", ip = "192.168.50.110", dns = ["1.1.1.1", "8.8.8.8"], mac_address = "BC:24:11:0C:00:02", vm_id = 810, cpu = 8, ram_dedicated = 4096 }
}
sealed_secrets_config = { certificate_path = "bootstrap/sealed-secrets.crt", certificate_key_path = "bootstrap/sealed-secrets.key" }
kubernetes_volumes    = { pv-music = { node = "elm", size = "4G" } }
