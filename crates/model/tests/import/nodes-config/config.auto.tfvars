cluster_name    = "orchard"
cluster_domain  = "kube.orchard.example"
network         = { gateway = "10.60.20.1", vip = "10.60.20.10", cidr_prefix = 24, dns_servers = ["10.60.20.1"], bridge = "vmbr0", vlan_id = 620 }
proxmox_cluster = "barn"
# renovate: github-releases=siderolabs/talos
versions        = { talos = "v1.12.6", kubernetes = "1.35.2" } # both by hand
oidc            = { issuer_url = "https://login.orchard.example/o/kubectl/", client_id = "kubectl" }
