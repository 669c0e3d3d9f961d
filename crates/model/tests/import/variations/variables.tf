variable "site" {
  type    = string
  default = "nowhere"
}
variable "short" { default = false }
variable "talos" { default = "1.12.6" }
variable "memory" { default = 8192 }
variable "hosts" { default = ["elm", "ash"] }
variable "sizes" { default = { control = 4 } }
variable "defaults" {
  default = { machine_type = "worker", cpu = 2, ram_dedicated = null }
}
variable "network" {
  type = object({ cidr = optional(string, "10.44.0.0/24") })
}
variable "workers" {
  type = list(object({
    host    = string
    memory  = optional(number)
    big     = optional(bool, false)
    enabled = optional(bool, true)
  }))
}
