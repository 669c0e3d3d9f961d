variable "defaults_worker" {
  type    = any
  default = { cpu = 8, cpu_units = 1024, ram_dedicated = 21504, igpu = false, disks = {} }
}
variable "proxmox_datastore" {
  type    = string
  default = "tank"
}
variable "bitwarden_token" {
  type      = string
  sensitive = true
}
