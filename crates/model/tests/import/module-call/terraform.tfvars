proxmox = { name = "oak", cluster_name = "grove", endpoint = "https://oak.grove.example:8006", insecure = true, username = "root", api_token = "root@pam!tofu=11111111-2222-3333-4444-555555555555" }
