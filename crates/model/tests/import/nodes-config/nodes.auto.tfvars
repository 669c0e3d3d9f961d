nodes_config = {
  "ctrl-00" = { machine_type = "controlplane", ip = "10.60.20.11", mac_address = "bc:24:11:0a:00:01", vm_id = 8101 }
  "work-00" = { machine_type = "worker", ip = "10.60.20.21", mac_address = "bc:24:11:0a:00:02", vm_id = 8201 }
  # more memory than the others
  "work-01" = { machine_type = "worker", ip = "10.60.20.22", mac_address = "bc:24:11:0a:00:03", vm_id = 8202, ram_dedicated = 12240 }
  "work-02" = {
    machine_type = "worker", ip = "10.60.20.23", mac_address = "bc:24:11:0a:00:04", vm_id = 8203
    disks = { longhorn = { device = "/dev/sdb", size = "500G", type = "scsi", mountpoint = "/var/lib/longhorn", unit_number = 1 } }
  }
  "work-03" = {
    machine_type = "worker", ip = "10.60.20.24", mac_address = "bc:24:11:0a:00:05", vm_id = 8204
    igpu = true, gpu_devices = ["0000:41:00.0", "0000:41:00.1"]
    gpu_device_meta = {
      "0000:41:00.0" = { id = "10de:2204", subsystem_id = "10de:1454", iommu_group = 21 }
      "0000:41:00.1" = { id = "10de:1aef", subsystem_id = "10de:1454", iommu_group = 21 }
    }
  }
  "work-04" = { host_node = "shed", machine_type = "worker", ip = "10.60.20.25", mac_address = "bc:24:11:0a:00:06", vm_id = 8205 }
  # "work-05" = { machine_type = "worker", ip = "10.60.20.26" }
}
