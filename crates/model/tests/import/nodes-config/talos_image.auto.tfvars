talos_image = { version = "v1.12.6", update_version = "v1.12.6", schematic_path = "talos/image/schematic.yaml.tftpl" }
