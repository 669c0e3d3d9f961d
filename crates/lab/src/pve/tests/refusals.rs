//! Requests that a server refuses, each with its words. They stand here side by side, so that a row for what was not thought
//! of costs one line.

use serde_json::json;

use super::super::request::Plain;
use super::super::{Twist, respond};
use super::lab;

/// A request in one line: method, path and parameters.
fn plain(line: &str, authorization: &str) -> Plain {
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let params: Vec<(&str, String)> = words
        .map(|word| word.split_once('=').unwrap())
        .map(|(name, value)| (name, value.replace('~', " ")))
        .collect();
    let params: Vec<(&str, &str)> = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Plain::of(method, path, authorization, &params)
}

/// What is refused: `status words`, with the parameters that are wrong.
async fn answers(lab: &crate::Lab, authorization: &str, rows: &[(&str, &str)]) {
    for (line, wanted) in rows {
        let refused = match respond(lab.shared(), "pve1", plain(line, authorization), Twist::None).await {
            Ok(_) => "200".to_owned(),
            Err((_, failure)) => failure.in_one_line(),
        };
        assert_eq!(refused, *wanted, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_are_refused_in_the_servers_words() {
    let (lab, client, _) = lab();
    client.image().await;
    let wish =
        json!({"vmid": 100, "scsi0": "local-lvm:1", "ide2": "none,media=cdrom", "boot": "order=scsi0"});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", wish).await, "OK");
    let wish = json!({"vmid": 101, "lock": "backup"});
    client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 101})).await;
    let refused = client.call("PUT", "/nodes/pve1/qemu/101/config", wish).await;
    assert_eq!(refused.reason, "only root can set 'lock' config");
    let token = format!("PVEAPIToken={}", lab.facts().token);
    answers(
        &lab,
        &token,
        &[
            // Property strings
            ("POST /nodes/pve1/qemu vmid=102 net0=virtio,bridge=", "400 net0: invalid format - missing key in comma-separated list property\n"),
            ("POST /nodes/pve1/qemu vmid=102 net0=virtio=BC:24:11:00:00:01,model=e1000", "400 net0: invalid format - duplicate key in comma-separated list property: model\n"),
            ("POST /nodes/pve1/qemu vmid=102 net0=model=e1000,virtio=BC:24:11:00:00:01", "400 net0: invalid format - key alias 'model' is already defined\n"),
            ("POST /nodes/pve1/qemu vmid=102 cpu=flags=+aes", "400 cpu: invalid format - CPU is missing cputype\n"),
            ("POST /nodes/pve1/qemu vmid=102 agent=enabled=maybe", "400 agent: invalid format - format error\nagent.enabled: type check ('boolean') failed - got 'maybe'\n"),
            ("POST /nodes/pve1/qemu vmid=102 ipconfig0=ip=10.0.0.5", "400 ipconfig0: invalid format - format error\nipconfig0.ip: invalid format - value does not look like a valid ipv4 network configuration\n\n"),
            ("POST /nodes/pve1/qemu vmid=102 hostpci0=0000:01:00.0,rombar=2", "400 hostpci0: invalid format - format error\nhostpci0.rombar: type check ('boolean') failed - got '2'\n"),
            ("POST /nodes/pve1/qemu vmid=102 startup=first", "400 startup: invalid format - unable to parse startup options\n"),
            ("POST /nodes/pve1/qemu vmid=102 nameserver=a_b", "400 nameserver: invalid format - value does not look like a valid address: a_b\n"),
            ("POST /nodes/pve1/qemu vmid=102 sshkeys=ssh-rsa%20nokey", "500 SSH public key validation error"),
            // Drives
            ("POST /nodes/pve1/qemu vmid=102 scsi0=nope:1", "500 storage 'nope' does not exist"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local:8G", "500 unable to parse directory volume name '8G'"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local:import/talos.qcow2", "400 scsi0: content type needs to be 'images' or 'iso'"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local:iso/a.iso", "400 scsi0: explicit 'media=cdrom' is required for iso images"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local-lvm:1,import-from=local:import/talos.qcow2", "400 scsi0: 'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local-lvm:0,import-from=local:nothing", "500 unable to parse directory volume name 'nothing'"),
            ("POST /nodes/pve1/qemu vmid=102 efidisk0=local-lvm:0,import-from=local:import/talos.qcow2", "400 efidisk0: need to specify 'efitype' when using 'import-from'"),
            ("POST /nodes/pve1/qemu vmid=102 usb0=host=1234:5678", "500 only root can set 'usb0' config for real devices"),
            ("POST /nodes/pve1/qemu vmid=102 serial0=/dev/ttyS0", "500 only root can set 'serial0' config for real devices"),
            // Changes
            ("PUT /nodes/pve1/qemu/100/config cores=2 delete=cores", "400 delete: you can't use '-cores' and -delete cores' at the same time"),
            ("PUT /nodes/pve1/qemu/100/config delete=cores revert=cores", "400 revert: you can't use '-delete cores' and -revert cores' at the same time"),
            ("PUT /nodes/pve1/qemu/100/config revert=nothing", "400 revert: unknown option 'nothing'"),
            ("PUT /nodes/pve1/qemu/100/config boot=order=scsi0;net0", "500 invalid bootorder: device 'net0' does not exist'"),
            ("PUT /nodes/pve1/qemu/100/config boot=order=scsi40", "400 boot: invalid format - format error\nboot.order: invalid format - invalid boot device 'scsi40'\n\n"),
            ("PUT /nodes/pve1/qemu/100/config memory=256 balloon=512", "500 balloon value too large (must be smaller than assigned memory)"),
            ("PUT /nodes/pve1/qemu/100/config scsi1=local-lvm:vm-100-disk-7", "500 volume local-lvm:vm-100-disk-7 does not exist"),
            ("PUT /nodes/pve1/qemu/100/config skiplock=1 cores=2", "400 skiplock: Only root may use this option."),
            ("PUT /nodes/pve1/qemu/100/config delete=vga", "200"),
            // Copies and moves
            ("POST /nodes/pve1/qemu/100/clone newid=101", "500 unable to create VM 101: config file already exists"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 full=0 storage=local-lvm", "500 parameter 'storage' not allowed for linked clones"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 storage=nope", "500 storage 'nope' does not exist"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 storage=local", "400 storage: storage 'local' does not support vm images"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 snapname=none", "500 snapshot 'none' does not exist"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 target=pve9", "500 no such cluster node 'pve9'"),
            ("POST /nodes/pve1/qemu/100/clone newid=103 target=pve2", "500 can't clone VM to node 'pve2' (VM uses local storage)"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=scsi0", "400 target-vmid: both 'storage' and 'target-vmid' missing, either needs to be set storage: both 'storage' and 'target-vmid' missing, either needs to be set"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 storage=local-lvm", "500 you can't move to the same storage with same format"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=scsi5 storage=local-lvm", "500 disk 'scsi5' does not exist"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=ide2 storage=local-lvm", "500 you can't move a cdrom"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 target-vmid=100", "400 target-vmid: must be different than source VMID to reassign disk"),
            ("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 target-vmid=999", "500 could not find target VM 999"),
            ("POST /nodes/pve1/qemu/100/migrate target=pve9", "500 no such cluster node 'pve9'"),
            ("PUT /nodes/pve1/qemu/100/resize disk=scsi0 size=1X", "400 size: value does not match the regex pattern"),
            ("POST /nodes/pve1/qemu/100/snapshot snapname=current", "500 unable to use snapshot name 'current' (reserved name)"),
            ("POST /nodes/pve1/qemu/100/snapshot snapname=Pending", "500 unable to use snapshot name 'pending' (reserved name)"),
            ("POST /nodes/pve1/qemu/100/agent/ping", "500 No QEMU guest agent configured"),
            ("DELETE /nodes/pve1/tasks/UPID:pve1:0000AAAA:0003FECF:6AFA1000:qmstart:1:root@pam:", "400 upid: no such task"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn storages_and_access_are_refused_in_the_servers_words() {
    let (lab, client, _) = lab();
    client.call("POST", "/access/users", json!({"userid": "few@pve"})).await.data();
    client.call("POST", "/pools", json!({"poolid": "some"})).await.data();
    let token = format!("PVEAPIToken={}", lab.facts().token);
    answers(
        &lab,
        &token,
        &[
            ("POST /storage storage=a1 type=dir", "500 missing value for required option 'path'"),
            ("POST /storage storage=a1 type=dir path=/a~b", "500 illegal path for directory storage: /a b"),
            ("POST /storage storage=a1 type=lvmthin thinpool=t1 vgname=v1 path=/x", "500 unexpected property 'path'"),
            ("POST /storage storage=a1 type=lvm vgname=v1 content=iso", "500 storage does not support content type 'none'"),
            ("POST /storage storage=local type=dir path=/x", "500 create storage failed: storage ID 'local' already defined"),
            ("POST /storage storage=x type=dir path=/x", "400 storage: invalid format - storage ID 'x' cannot be shorter than 2 characters\n"),
            ("PUT /storage/local delete=path", "500 update storage failed: unable to delete required option 'path'"),
            ("PUT /storage/none content=iso", "500 update storage failed: storage 'none' does not exist"),
            ("GET /nodes/pve1/storage storage=none", "400 storage: No such storage."),
            ("GET /nodes/pve1/storage/local/content/local-lvm:vm-1-disk-0", "400 volume: storage ID mismatch (local-lvm != local)\n"),
            ("GET /nodes/pve1/storage/local/content/local:iso/a.iso", "500 volume_size_info on 'local:iso/a.iso' failed - no format"),
            ("DELETE /nodes/pve1/storage/local/content/local:nothing", "500 unable to parse directory volume name 'nothing'"),
            ("POST /nodes/pve1/storage/local-lvm/content filename=disk vmid=100 size=1G", "500 illegal name 'disk' - should be 'vm-100-*'"),
            ("POST /nodes/pve1/storage/local/download-url content=iso filename=a.qcow2 url=http://x/a", "400 filename: wrong file extension"),
            ("POST /nodes/pve1/storage/local/download-url content=iso filename=a.iso url=ftp://x/a", "400 url: value does not match the regex pattern"),
            ("POST /nodes/pve1/storage/local/download-url content=iso filename=a.iso url=http://x/a checksum=1 checksum-algorithm=crc", "400 checksum-algorithm: value 'crc' does not have a value in the enumeration 'md5, sha1, sha224, sha256, sha384, sha512'"),
            ("POST /access/roles roleid=pveMine", "400 roleid: cannot use role ID starting with the (case-insensitive) 'PVE' namespace"),
            ("PUT /access/roles/PVEAdmin privs=VM.Audit", "500 auto-generated role 'PVEAdmin' cannot be modified"),
            ("DELETE /access/roles/None", "500 delete role failed: role 'None' does not exist"),
            ("PUT /access/acl path=/ roles=PVEAdmin", "400 users: either 'users', 'groups' or 'tokens' is required. groups: either 'users', 'groups' or 'tokens' is required. tokens: either 'users', 'groups' or 'tokens' is required."),
            ("PUT /access/acl path=/nowhere roles=PVEAdmin users=few@pve", "400 path: invalid ACL path '/nowhere'"),
            ("PUT /access/acl path=/ roles=PVEAdmin users=no@pve", "500 ACL update failed: user 'no@pve' does not exist"),
            ("PUT /access/acl path=/ roles=PVEAdmin groups=none delete=1", "500 ACL update failed: group 'none' does not exist"),
            ("PUT /access/acl path=/ roles=PVEAdmin tokens=few@pve!no", "500 ACL update failed: no such token 'no' for user 'few@pve'"),
            ("POST /access/users userid=few@pve", "500 create user failed: user 'few@pve' already exists"),
            ("POST /access/users userid=new@none password=longenough", "500 create user failed: auth domain 'none' does not exist"),
            ("POST /access/users userid=new@pve password=short", "400 password: value must be at least 8 characters long"),
            ("PUT /access/users/few@pve groups=none", "500 update user failed: no such group 'none'"),
            ("POST /access/domains realm=pve type=ldap", "500 add auth server failed: domain 'pve' already exists"),
            ("DELETE /access/domains/none", "500 delete auth server failed: authentication domain 'none' does not exist"),
            ("POST /pools poolid=some", "500 create pool failed: pool 'some' already exists"),
            ("POST /pools poolid=1st", "500 create pool failed: pool name must start with a letter"),
            ("POST /pools poolid=none/sub", "500 create pool failed: parent 'none' of pool 'none/sub' does not exist"),
            ("PUT /pools poolid=some vms=100 delete=1", "500 update pools failed: VM 100 is not a pool member"),
            ("DELETE /pools poolid=none", "500 delete pool failed: pool 'none' does not exist"),
            ("GET /cluster/nextid vmid=5", "400 vmid: invalid format - value does not look like a valid VM ID\n"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_lacks_is_named_with_its_path() {
    let (lab, client, _) = lab();
    assert_eq!(
        client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "scsi0": "local-lvm:1"})).await,
        "OK"
    );
    client.call("POST", "/access/users", json!({"userid": "few@pve"})).await.data();
    let token = client.call("POST", "/access/users/few@pve/token/one", json!({"privsep": 0})).await.data();
    let role = "VM.Allocate,VM.Audit,VM.Config.Options,VM.Config.Disk";
    client.call("POST", "/access/roles", json!({"roleid": "Few", "privs": role})).await.data();
    client
        .call("PUT", "/access/acl", json!({"path": "/vms", "roles": "Few", "users": "few@pve"}))
        .await
        .data();
    let token = format!("PVEAPIToken=few@pve!one={}", token["value"].as_str().unwrap());
    answers(
        &lab,
        &token,
        &[
            ("POST /nodes/pve1/qemu vmid=102 cores=2", "403 Permission check failed (/vms/102, VM.Config.CPU)"),
            ("POST /nodes/pve1/qemu vmid=102 startup=order=1", "403 Permission check failed (/, Sys.Modify)"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local-lvm:1", "403 Permission check failed (/storage/local-lvm, Datastore.AllocateSpace)"),
            ("POST /nodes/pve1/qemu vmid=102 scsi0=local-lvm:vm-102-disk-0", "200"),
            ("POST /nodes/pve1/qemu vmid=103 scsi0=local-lvm:vm-100-disk-0", "403 Permission check failed (/storage/local-lvm, Datastore.Audit)"),
            ("POST /nodes/pve1/qemu vmid=103 ide2=cdrom,media=cdrom", "403 Permission check failed (/, Sys.Console)"),
            ("POST /nodes/pve1/qemu vmid=103 net0=virtio,bridge=vmbr0,tag=5", "403 Permission check failed (/vms/103, VM.Config.Network)"),
            ("PUT /nodes/pve1/qemu/100/config ide2=local-lvm:cloudinit", "403 Permission check failed (/vms/100, VM.Config.Cloudinit)"),
            ("PUT /nodes/pve1/qemu/100/config ide2=none,media=cdrom", "403 Permission check failed (/vms/100, VM.Config.CDROM)"),
            ("POST /nodes/pve1/qemu/100/status/start", "403 Permission check failed (/vms/100, VM.PowerMgmt)"),
            ("POST /nodes/pve1/qemu/100/clone newid=104", "403 Permission check failed (/vms/100, VM.Clone)"),
            ("PUT /access/acl path=/vms/100 roles=PVEAdmin users=few@pve", "500 ACL update failed: 400 Parameter verification failed. role: Cannot add role 'PVEAdmin' - requires 'Permissions.Modify' or superset of privileges."),
            ("PUT /access/acl path=/storage/local roles=PVEAdmin users=few@pve", "403 Permission check failed (/storage/local, Permissions.Modify|Datastore.Allocate)"),
            ("POST /access/users userid=new@pve", "403 Permission check failed (/access/realm/pve, Realm.AllocateUser)"),
            ("POST /pools poolid=mine", "403 Permission check failed (/pool/mine, Pool.Allocate)"),
        ],
    )
    .await;
}
