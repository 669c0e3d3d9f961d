variable "nodes" {
  type = map(object({
    host_node     = string
    machine_type  = string
    datastore_id  = optional(string, "tank")
    ip            = string
    vm_id         = number
    cpu           = number
    ram_dedicated = optional(number, 4096)
    vlan_id       = optional(number, 0)
    disks         = optional(map(object({ size = string, mountpoint = optional(string, "/var/mnt/data") })), { data = { size = "50G" } })
  }))
}
