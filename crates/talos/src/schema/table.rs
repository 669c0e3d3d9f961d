//! Which keys each document has in each release. Generated from the types of Talos' own library by
//! `cargo run -p xtask -- conformance --schema`; not to be changed by hand.

use super::{Kind, Struct, Type::*, field, kind, replaced};

#[rustfmt::skip]
pub(super) static KINDS: &[Kind] = &[
    kind("BGPInstanceConfig", "network.BGPInstanceConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("BlackholeRouteConfig", "network.BlackholeRouteConfigV1Alpha1", true, false, false, &[], 13, 14),
    kind("BondConfig", "network.BondConfigV1Alpha1", true, false, true, &["BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "WireguardConfig"], 12, 12),
    kind("BondConfig", "network.BondConfigV1Alpha1", true, false, true, &["BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "WireguardConfig"], 13, 13),
    kind("BondConfig", "network.BondConfigV1Alpha1", true, false, true, &["BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("BridgeConfig", "network.BridgeConfigV1Alpha1", true, false, true, &["BondConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "WireguardConfig"], 12, 12),
    kind("BridgeConfig", "network.BridgeConfigV1Alpha1", true, false, true, &["BondConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "WireguardConfig"], 13, 13),
    kind("BridgeConfig", "network.BridgeConfigV1Alpha1", true, false, true, &["BondConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("CRIBaseRuntimeSpecConfig", "cri.CRIBaseRuntimeSpecConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("CRICustomizationConfig", "cri.CRICustomizationConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("ContainerConfig", "container.ContainerConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("DHCPv4Config", "network.DHCPv4ConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("DHCPv6Config", "network.DHCPv6ConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("DiscoveryIdentityConfig", "cluster.DiscoveryIdentityConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("DiscoveryServiceConfig", "cluster.DiscoveryServiceConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("DummyLinkConfig", "network.DummyLinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "LinkConfig", "VLANConfig", "WireguardConfig"], 12, 12),
    kind("DummyLinkConfig", "network.DummyLinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "LinkConfig", "VLANConfig", "VRFConfig", "WireguardConfig"], 13, 13),
    kind("DummyLinkConfig", "network.DummyLinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "LinkConfig", "VLANConfig", "VRFConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("EnvironmentConfig", "runtime.EnvironmentV1Alpha1", false, false, false, &[], 13, 14),
    kind("EtcFileConfig", "runtime.EtcFileConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("EthernetConfig", "network.EthernetConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("EventSinkConfig", "runtime.EventSinkV1Alpha1", false, false, false, &[], 10, 14),
    kind("ExistingVolumeConfig", "block.ExistingVolumeConfigV1Alpha1", true, false, false, &["UserVolumeConfig"], 11, 14),
    kind("ExtensionServiceConfig", "extensions.ServiceConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("ExternalVolumeConfig", "block.ExternalVolumeConfigV1Alpha1", true, false, false, &[], 13, 14),
    kind("FilesystemScrubConfig", "block.FilesystemScrubConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("FilesystemTrimConfig", "block.FilesystemTrimConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("HCloudVIPConfig", "network.HCloudVIPConfigV1Alpha1", true, false, false, &["Layer2VIPConfig"], 12, 14),
    kind("HTTPProbeConfig", "network.HTTPProbeConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("HostnameConfig", "network.HostnameConfigV1Alpha1", false, false, false, &[], 12, 14),
    kind("ImageCacheConfig", "cri.ImageCacheConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("ImageVerificationConfig", "security.ImageVerificationConfigV1Alpha1", false, false, false, &[], 13, 14),
    kind("KernelModuleConfig", "runtime.KernelModuleConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("KmsgLogConfig", "runtime.KmsgLogV1Alpha1", true, false, false, &[], 10, 14),
    kind("KubeAPIServerCAConfig", "k8s.KubeAPIServerCAConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubeAPIServerConfig", "k8s.KubeAPIServerConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeAdmissionControlConfig", "k8s.KubeAdmissionControlConfigV1Alpha1", true, true, false, &[], 14, 14),
    kind("KubeAggregatorCAConfig", "k8s.KubeAggregatorCAConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeAuditPolicyConfig", "k8s.KubeAuditPolicyConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeAuthenticationConfig", "k8s.KubeAuthenticationConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeAuthorizerConfig", "k8s.KubeAuthorizerConfigV1Alpha1", true, true, false, &[], 14, 14),
    kind("KubeClusterConfig", "k8s.KubeClusterConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubeControllerManagerConfig", "k8s.KubeControllerManagerConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeCoreDNSConfig", "k8s.KubeCoreDNSConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeCredentialProviderConfig", "k8s.KubeCredentialProviderConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubeEtcdEncryptionConfig", "k8s.KubeEtcdEncryptionConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeExternalManifestConfig", "k8s.KubeExternalManifestConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("KubeFlannelCNIConfig", "k8s.KubeFlannelCNIConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeInlineManifestConfig", "k8s.KubeInlineManifestConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("KubeNetworkConfig", "k8s.KubeNetworkConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubeNodeConfig", "k8s.KubeNodeConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubePrismConfig", "k8s.KubePrismConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("KubeProxyConfig", "k8s.KubeProxyConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeSchedulerConfig", "k8s.KubeSchedulerConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeServiceAccountConfig", "k8s.KubeServiceAccountConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeSpanConfig", "network.KubeSpanConfigV1Alpha1", false, false, false, &[], 13, 14),
    kind("KubeSpanEndpointsConfig", "network.KubespanEndpointsConfigV1Alpha1", false, false, false, &[], 10, 14),
    kind("KubeStaticPodConfig", "k8s.KubeStaticPodConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("KubeTalosAPIAccessConfig", "k8s.KubeTalosAPIAccessConfigV1Alpha1", false, true, false, &[], 14, 14),
    kind("KubeletConfig", "k8s.KubeletConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("LVMLogicalVolumeConfig", "storage.LVMLogicalVolumeConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("LVMVolumeGroupConfig", "storage.LVMVolumeGroupConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("Layer2VIPConfig", "network.Layer2VIPConfigV1Alpha1", true, false, false, &["HCloudVIPConfig"], 12, 14),
    kind("LinkAliasConfig", "network.LinkAliasConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("LinkConfig", "network.LinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "VLANConfig", "WireguardConfig"], 12, 12),
    kind("LinkConfig", "network.LinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "VLANConfig", "VRFConfig", "WireguardConfig"], 13, 13),
    kind("LinkConfig", "network.LinkConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "VLANConfig", "VRFConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("NetworkDefaultActionConfig", "network.DefaultActionConfigV1Alpha1", false, false, false, &[], 10, 14),
    kind("NetworkRuleConfig", "network.RuleConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("OOMConfig", "runtime.OOMV1Alpha1", false, false, false, &[], 12, 14),
    kind("PCIDriverRebindConfig", "hardware.PCIDriverRebindConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("RAIDArrayConfig", "storage.RAIDArrayConfigV1Alpha1", true, false, false, &[], 14, 14),
    kind("RawVolumeConfig", "block.RawVolumeConfigV1Alpha1", true, false, false, &[], 11, 14),
    kind("RegistryAuthConfig", "cri.RegistryAuthConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("RegistryMirrorConfig", "cri.RegistryMirrorConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("RegistryTLSConfig", "cri.RegistryTLSConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("ResolverConfig", "network.ResolverConfigV1Alpha1", false, false, false, &[], 12, 14),
    kind("RoutingRuleConfig", "network.RoutingRuleConfigV1Alpha1", true, false, false, &[], 13, 14),
    kind("SecurityProfileConfig", "runtime.SecurityProfileConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("SideroLinkConfig", "siderolink.ConfigV1Alpha1", false, false, false, &[], 10, 14),
    kind("StaticHostConfig", "network.StaticHostConfigV1Alpha1", true, false, false, &[], 12, 14),
    kind("SwapVolumeConfig", "block.SwapVolumeConfigV1Alpha1", true, false, false, &[], 11, 14),
    kind("SysctlConfig", "runtime.SysctlConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("SysfsConfig", "runtime.SysfsConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("TCPProbeConfig", "network.TCPProbeConfigV1Alpha1", true, false, false, &[], 13, 14),
    kind("TimeSyncConfig", "network.TimeSyncConfigV1Alpha1", false, false, false, &[], 12, 14),
    kind("TrustedRootsConfig", "security.TrustedRootsConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("UdevRulesConfig", "runtime.UdevRulesConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("UnattendedInstallConfig", "runtime.UnattendedInstallConfigV1Alpha1", false, false, false, &[], 14, 14),
    kind("UserVolumeConfig", "block.UserVolumeConfigV1Alpha1", true, false, false, &[], 10, 10),
    kind("UserVolumeConfig", "block.UserVolumeConfigV1Alpha1", true, false, false, &["ExistingVolumeConfig"], 11, 14),
    kind("VLANConfig", "network.VLANConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "WireguardConfig"], 12, 12),
    kind("VLANConfig", "network.VLANConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VRFConfig", "WireguardConfig"], 13, 13),
    kind("VLANConfig", "network.VLANConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VRFConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("VRFConfig", "network.VRFConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "WireguardConfig"], 13, 13),
    kind("VRFConfig", "network.VRFConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VethConfig", "WireguardConfig"], 14, 14),
    kind("VethConfig", "network.VethConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "WireguardConfig"], 14, 14),
    kind("VolumeConfig", "block.VolumeConfigV1Alpha1", true, false, false, &[], 10, 14),
    kind("WatchdogTimerConfig", "runtime.WatchdogTimerV1Alpha1", false, false, false, &[], 10, 14),
    kind("WireguardConfig", "network.WireguardConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig"], 12, 12),
    kind("WireguardConfig", "network.WireguardConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig"], 13, 13),
    kind("WireguardConfig", "network.WireguardConfigV1Alpha1", true, false, true, &["BondConfig", "BridgeConfig", "DummyLinkConfig", "LinkConfig", "VLANConfig", "VRFConfig", "VethConfig"], 14, 14),
    kind("ZswapConfig", "block.ZswapConfigV1Alpha1", false, false, false, &[], 11, 14),
    kind("v1alpha1", "v1alpha1.Config", false, false, false, &[], 10, 14),
];

#[rustfmt::skip]
pub(super) static STRUCTS: &[Struct] = &[
    Struct { name: "block.DiskSelector", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 10, 14), ] },
    Struct { name: "block.EncryptionKey", fields: &[
        field("slot", &Int(64), 10, 14), field("static", &Ptr(&Named("block.EncryptionKeyStatic")), 10, 14),
        field("nodeID", &Ptr(&Named("block.EncryptionKeyNodeID")), 10, 14), field("kms", &Ptr(&Named("block.EncryptionKeyKMS")), 10, 14),
        field("tpm", &Ptr(&Named("block.EncryptionKeyTPM")), 10, 14), field("lockToState", &Ptr(&Bool), 11, 14), ] },
    Struct { name: "block.EncryptionKeyKMS", fields: &[
        field("endpoint", &Text, 10, 14), ] },
    Struct { name: "block.EncryptionKeyNodeID", fields: &[ ] },
    Struct { name: "block.EncryptionKeyStatic", fields: &[
        field("passphrase", &Text, 10, 14), ] },
    Struct { name: "block.EncryptionKeyTPM", fields: &[
        field("checkSecurebootStatusOnEnroll", &Ptr(&Bool), 10, 14), field("options", &Ptr(&Named("block.EncryptionKeyTPMOptions")), 12, 14), ] },
    Struct { name: "block.EncryptionKeyTPMOptions", fields: &[
        field("pcrs", &List(&Int(64)), 12, 14), ] },
    Struct { name: "block.EncryptionSpec", fields: &[
        field("provider", &Enum("block.EncryptionProviderType"), 10, 14), field("keys", &List(&Named("block.EncryptionKey")), 10, 14),
        field("cipher", &Text, 10, 14), field("keySize", &Uint(64), 10, 14), field("blockSize", &Uint(64), 10, 14),
        field("options", &List(&Text), 10, 14), field("allowDiscards", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "block.ExistingMountSpec", fields: &[
        field("readOnly", &Ptr(&Bool), 13, 14), field("disableAccessTime", &Ptr(&Bool), 13, 14), field("secure", &Ptr(&Bool), 13, 14), ] },
    Struct { name: "block.ExistingVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 11, 14), field("kind", &Text, 11, 14), field("name", &Text, 11, 14),
        field("discovery", &Named("block.VolumeDiscoverySpec"), 11, 14), field("mount", &Named("block.MountSpec"), 11, 12),
        field("mount", &Named("block.ExistingMountSpec"), 13, 14), field("trim", &Ptr(&Named("block.TrimConfig")), 14, 14),
        field("scrub", &Ptr(&Named("block.ScrubConfig")), 14, 14), ] },
    Struct { name: "block.ExternalMountSpec", fields: &[
        field("readOnly", &Ptr(&Bool), 13, 14), field("disableAccessTime", &Ptr(&Bool), 13, 14), field("secure", &Ptr(&Bool), 13, 14),
        field("virtiofs", &Ptr(&Named("block.VirtiofsMountSpec")), 13, 14), ] },
    Struct { name: "block.ExternalVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("name", &Text, 13, 14),
        field("filesystemType", &Enum("block.FilesystemType"), 13, 14), field("mount", &Named("block.ExternalMountSpec"), 13, 14), ] },
    Struct { name: "block.FilesystemScrubConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("interval", &Duration, 14, 14), ] },
    Struct { name: "block.FilesystemSpec", fields: &[
        field("type", &Enum("block.FilesystemType"), 10, 14), field("projectQuotaSupport", &Ptr(&Bool), 11, 14),
        field("xfs", &Ptr(&Named("block.XFSSpec")), 14, 14), ] },
    Struct { name: "block.FilesystemTrimConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("interval", &Duration, 14, 14), ] },
    Struct { name: "block.MountSpec", fields: &[
        field("readOnly", &Ptr(&Bool), 11, 12), field("secure", &Ptr(&Bool), 13, 14), field("disableAccessTime", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "block.ProvisioningSpec", fields: &[
        field("diskSelector", &Named("block.DiskSelector"), 10, 14), field("grow", &Ptr(&Bool), 10, 14),
        field("minSize", &Merged("ByteSize", &Opaque("block.ByteSize")), 10, 14),
        field("maxSize", &Merged("ByteSize", &Opaque("block.ByteSize")), 10, 11), field("maxSize", &Opaque("block.Size"), 12, 14), ] },
    Struct { name: "block.RawVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 11, 14), field("kind", &Text, 11, 14), field("name", &Text, 11, 14),
        field("provisioning", &Named("block.ProvisioningSpec"), 11, 14), field("encryption", &Named("block.EncryptionSpec"), 11, 14), ] },
    Struct { name: "block.ScrubConfig", fields: &[
        field("enabled", &Ptr(&Bool), 14, 14), field("interval", &Duration, 14, 14), ] },
    Struct { name: "block.SwapVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 11, 14), field("kind", &Text, 11, 14), field("name", &Text, 11, 14),
        field("provisioning", &Named("block.ProvisioningSpec"), 11, 14), field("encryption", &Named("block.EncryptionSpec"), 11, 14), ] },
    Struct { name: "block.SystemVolumeFilesystemSpec", fields: &[
        field("xfs", &Ptr(&Named("block.XFSSpec")), 14, 14), ] },
    Struct { name: "block.TrimConfig", fields: &[
        field("enabled", &Ptr(&Bool), 14, 14), field("interval", &Duration, 14, 14), ] },
    Struct { name: "block.UserMountSpec", fields: &[
        field("disableAccessTime", &Ptr(&Bool), 13, 14), field("secure", &Ptr(&Bool), 13, 14), ] },
    Struct { name: "block.UserVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14),
        field("provisioning", &Named("block.ProvisioningSpec"), 10, 14), field("filesystem", &Named("block.FilesystemSpec"), 10, 14),
        field("encryption", &Named("block.EncryptionSpec"), 10, 14), field("volumeType", &Ptr(&Enum("block.VolumeType")), 12, 14),
        field("mount", &Named("block.UserMountSpec"), 13, 14), field("trim", &Ptr(&Named("block.TrimConfig")), 14, 14),
        field("scrub", &Ptr(&Named("block.ScrubConfig")), 14, 14), ] },
    Struct { name: "block.VirtiofsMountSpec", fields: &[
        field("tag", &Text, 13, 14), ] },
    Struct { name: "block.VolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14),
        field("provisioning", &Named("block.ProvisioningSpec"), 10, 14), field("encryption", &Named("block.EncryptionSpec"), 11, 14),
        field("mount", &Named("block.MountSpec"), 13, 14), field("filesystem", &Named("block.SystemVolumeFilesystemSpec"), 14, 14),
        field("trim", &Ptr(&Named("block.TrimConfig")), 14, 14), field("scrub", &Ptr(&Named("block.ScrubConfig")), 14, 14), ] },
    Struct { name: "block.VolumeDiscoverySpec", fields: &[
        field("volumeSelector", &Named("block.VolumeSelector"), 11, 14), ] },
    Struct { name: "block.VolumeSelector", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 11, 14), ] },
    Struct { name: "block.XFSSpec", fields: &[
        field("minAllocationGroupSize", &Merged("ByteSize", &Opaque("block.ByteSize")), 14, 14), ] },
    Struct { name: "block.ZswapConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 11, 14), field("kind", &Text, 11, 14), field("maxPoolPercent", &Ptr(&Int(64)), 11, 14),
        field("shrinkerEnabled", &Ptr(&Bool), 11, 14), ] },
    Struct { name: "cluster.DiscoveryIdentityConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("clusterID", &Text, 14, 14), field("clusterSecret", &Text, 14, 14), ] },
    Struct { name: "cluster.DiscoveryServiceConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("endpoint", &Url, 14, 14), ] },
    Struct { name: "container.ContainerCapabilities", fields: &[
        field("add", &List(&Text), 14, 14), field("drop", &List(&Text), 14, 14), ] },
    Struct { name: "container.ContainerConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("image", &Text, 14, 14),
        field("entrypoint", &List(&Text), 14, 14), field("args", &List(&Text), 14, 14), field("workingDir", &Text, 14, 14),
        field("runAs", &Ptr(&Named("container.ContainerRunAs")), 14, 14), field("environment", &List(&Text), 14, 14),
        field("mounts", &List(&Named("container.ContainerMount")), 14, 14), field("security", &Ptr(&Named("container.ContainerSecurity")), 14, 14),
        field("network", &Ptr(&Named("container.ContainerNetwork")), 14, 14),
        field("resources", &Ptr(&Named("container.ContainerResources")), 14, 14),
        field("dependsOn", &Ptr(&Named("container.ContainerDependsOn")), 14, 14), ] },
    Struct { name: "container.ContainerDependsOn", fields: &[
        field("paths", &List(&Text), 14, 14), field("networks", &List(&Text), 14, 14), field("time", &Ptr(&Bool), 14, 14),
        field("containers", &List(&Text), 14, 14), ] },
    Struct { name: "container.ContainerMount", fields: &[
        field("userVolume", &Ptr(&Named("container.UserVolumeMount")), 14, 14), field("tmpfs", &Ptr(&Named("container.TmpfsMount")), 14, 14),
        field("hostPath", &Ptr(&Named("container.HostPathMount")), 14, 14), ] },
    Struct { name: "container.ContainerNetwork", fields: &[
        field("mode", &Text, 14, 14), ] },
    Struct { name: "container.ContainerResourceLimits", fields: &[
        field("cpu", &Text, 14, 14), field("memory", &Text, 14, 14), ] },
    Struct { name: "container.ContainerResources", fields: &[
        field("limits", &Ptr(&Named("container.ContainerResourceLimits")), 14, 14), ] },
    Struct { name: "container.ContainerRunAs", fields: &[
        field("uid", &Ptr(&Int(32)), 14, 14), field("gid", &Ptr(&Int(32)), 14, 14), ] },
    Struct { name: "container.ContainerSecurity", fields: &[
        field("profile", &Text, 14, 14), field("capabilities", &Ptr(&Named("container.ContainerCapabilities")), 14, 14),
        field("machinedAccess", &Bool, 14, 14), ] },
    Struct { name: "container.HostPathMount", fields: &[
        field("source", &Text, 14, 14), field("destination", &Text, 14, 14), field("options", &List(&Text), 14, 14), ] },
    Struct { name: "container.TmpfsMount", fields: &[
        field("destination", &Text, 14, 14), field("size", &Text, 14, 14), field("options", &List(&Text), 14, 14), ] },
    Struct { name: "container.UserVolumeMount", fields: &[
        field("name", &Text, 14, 14), field("destination", &Text, 14, 14), field("options", &List(&Text), 14, 14), ] },
    Struct { name: "cri.CRIBaseRuntimeSpecConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), replaced("overrides", &Unstructured, 14, 14), ] },
    Struct { name: "cri.CRICustomizationConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("content", &Text, 14, 14), ] },
    Struct { name: "cri.ImageCacheConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("local", &Named("cri.LocalImageCacheConfig"), 14, 14), ] },
    Struct { name: "cri.LocalImageCacheConfig", fields: &[
        field("enabled", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "cri.RegistryAuthConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("username", &Text, 12, 14),
        field("password", &Text, 12, 14), field("auth", &Text, 12, 14), field("identityToken", &Text, 12, 14), ] },
    Struct { name: "cri.RegistryEndpoint", fields: &[
        field("url", &Url, 12, 14), field("overridePath", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "cri.RegistryMirrorConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("endpoints", &List(&Named("cri.RegistryEndpoint")), 12, 14), field("skipFallback", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "cri.RegistryTLSConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("clientIdentity", &Ptr(&Named("meta.CertificateAndKey")), 12, 14), field("ca", &Text, 12, 14),
        field("insecureSkipVerify", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "extensions.ConfigFile", fields: &[
        field("content", &Text, 10, 14), field("mountPath", &Text, 10, 14), ] },
    Struct { name: "extensions.ServiceConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14),
        field("configFiles", &Merged("ConfigFileList", &List(&Named("extensions.ConfigFile"))), 10, 14), field("environment", &List(&Text), 10, 14), ] },
    Struct { name: "hardware.PCIDriverRebindConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14), field("targetDriver", &Text, 10, 14), ] },
    Struct { name: "k8s.AcceptedServiceAccountConfig", fields: &[
        field("publicKeys", &List(&Text), 14, 14), field("issuers", &List(&Url), 14, 14), field("audiences", &List(&Text), 14, 14), ] },
    Struct { name: "k8s.IssuerServiceAccountConfig", fields: &[
        field("privateKey", &Text, 14, 14), field("issuerURL", &Url, 14, 14), ] },
    Struct { name: "k8s.KubeAPIServerCAConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("issuingCA", &Ptr(&Named("meta.CertificateAndKey")), 14, 14),
        field("acceptedCAs", &List(&Text), 14, 14), ] },
    Struct { name: "k8s.KubeAPIServerConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("image", &Text, 14, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), field("env", &Map(&Text), 14, 14),
        field("resources", &Named("k8s.ResourcesConfig"), 14, 14), field("apiPort", &Ptr(&Int(64)), 14, 14),
        field("certExtraSANs", &List(&Text), 14, 14), field("startupProbes", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "k8s.KubeAdmissionControlConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("configuration", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeAggregatorCAConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("issuingCA", &Ptr(&Named("meta.CertificateAndKey")), 14, 14),
        field("acceptedCAs", &List(&Text), 14, 14), ] },
    Struct { name: "k8s.KubeAuditPolicyConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), replaced("configuration", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeAuthenticationConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), replaced("configuration", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeAuthorizerConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("type", &Text, 14, 14),
        field("webhook", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeClusterConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("clusterName", &Text, 14, 14), field("endpoint", &Url, 14, 14), ] },
    Struct { name: "k8s.KubeControllerManagerConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("enabled", &Ptr(&Bool), 14, 14), field("image", &Text, 14, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), field("env", &Map(&Text), 14, 14),
        field("resources", &Named("k8s.ResourcesConfig"), 14, 14), ] },
    Struct { name: "k8s.KubeCoreDNSConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("enabled", &Ptr(&Bool), 14, 14), field("image", &Text, 14, 14), ] },
    Struct { name: "k8s.KubeCredentialProviderConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), replaced("configuration", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeEtcdEncryptionConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("config", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeExternalManifestConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("headers", &Map(&Text), 14, 14),
        field("url", &Url, 14, 14), ] },
    Struct { name: "k8s.KubeFlannelCNIConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("backendType", &Text, 14, 14),
        field("backendPort", &Uint(16), 14, 14), field("backendMTU", &Uint(32), 14, 14), field("backendExtraConfig", &Unstructured, 14, 14),
        field("resources", &Named("k8s.ResourcesConfig"), 14, 14), field("extraArgs", &List(&Text), 14, 14),
        field("kubeNetworkPoliciesEnabled", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "k8s.KubeInlineManifestConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("manifest", &Text, 14, 14), ] },
    Struct { name: "k8s.KubeNetworkConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("dnsDomain", &Text, 14, 14),
        replaced("podSubnets", &List(&Merged("Prefix", &Opaque("meta.Prefix"))), 14, 14),
        replaced("serviceSubnets", &List(&Merged("Prefix", &Opaque("meta.Prefix"))), 14, 14), field("nodeCIDRMaskSizeIPv4", &Int(64), 14, 14),
        field("nodeCIDRMaskSizeIPv6", &Int(64), 14, 14), ] },
    Struct { name: "k8s.KubeNodeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("skipNodeRegistration", &Ptr(&Bool), 14, 14),
        field("registerWithFQDN", &Ptr(&Bool), 14, 14), field("nodeIP", &Named("k8s.NodeIPConfig"), 14, 14), field("labels", &Map(&Text), 14, 14),
        field("annotations", &Map(&Text), 14, 14), field("taints", &Map(&Text), 14, 14), ] },
    Struct { name: "k8s.KubePrismConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("port", &Int(64), 14, 14), field("tlsServerName", &Text, 14, 14), ] },
    Struct { name: "k8s.KubeProxyConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("enabled", &Ptr(&Bool), 14, 14), field("image", &Text, 14, 14),
        field("mode", &Text, 14, 14), field("config", &Unstructured, 14, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), field("resources", &Named("k8s.ResourcesConfig"), 14, 14), ] },
    Struct { name: "k8s.KubeSchedulerConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("enabled", &Ptr(&Bool), 14, 14), field("image", &Text, 14, 14),
        field("config", &Unstructured, 14, 14), field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14),
        field("env", &Map(&Text), 14, 14), field("resources", &Named("k8s.ResourcesConfig"), 14, 14), ] },
    Struct { name: "k8s.KubeServiceAccountConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("issuer", &Named("k8s.IssuerServiceAccountConfig"), 14, 14),
        field("accepted", &Named("k8s.AcceptedServiceAccountConfig"), 14, 14), ] },
    Struct { name: "k8s.KubeStaticPodConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), replaced("pod", &Unstructured, 14, 14), ] },
    Struct { name: "k8s.KubeTalosAPIAccessConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("allowedRoles", &List(&Text), 14, 14),
        field("allowedKubernetesNamespaces", &List(&Text), 14, 14), ] },
    Struct { name: "k8s.KubeletConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("image", &Text, 14, 14), field("config", &Unstructured, 14, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), field("clusterDNS", &List(&Text), 14, 14),
        field("defaultRuntimeSeccompProfileEnabled", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "k8s.NodeIPConfig", fields: &[
        field("validSubnets", &List(&Text), 14, 14), ] },
    Struct { name: "k8s.ResourcesConfig", fields: &[
        field("requests", &Unstructured, 14, 14), field("limits", &Unstructured, 14, 14), ] },
    Struct { name: "meta.CertificateAndKey", fields: &[
        field("cert", &Text, 12, 14), field("key", &Text, 12, 14), ] },
    Struct { name: "network.AddressConfig", fields: &[
        field("address", &Opaque("netip.Prefix"), 12, 14), field("routePriority", &Ptr(&Uint(32)), 12, 14), ] },
    Struct { name: "network.BGPBFDConfig", fields: &[
        field("transmitInterval", &Duration, 14, 14), field("receiveInterval", &Duration, 14, 14), field("detectMultiplier", &Uint(8), 14, 14), ] },
    Struct { name: "network.BGPImportRoute", fields: &[
        field("bgpInstance", &Text, 14, 14), field("prefixes", &List(&Merged("Prefix", &Opaque("meta.Prefix"))), 14, 14), ] },
    Struct { name: "network.BGPInstanceConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("vrf", &Text, 14, 14),
        field("localASN", &Uint(32), 14, 14), field("routerID", &Merged("Addr", &Opaque("meta.Addr")), 14, 14),
        field("routeSource", &Merged("Addr", &Opaque("meta.Addr")), 14, 14), replaced("advertise", &List(&Text), 14, 14),
        field("multipath", &Ptr(&Bool), 14, 14), field("maxPaths", &Uint(8), 14, 14), field("installRoutes", &Ptr(&Bool), 14, 14),
        replaced("importRoutes", &List(&Named("network.BGPImportRoute")), 14, 14),
        replaced("neighbors", &List(&Named("network.BGPNeighborConfig")), 14, 14), ] },
    Struct { name: "network.BGPNeighborConfig", fields: &[
        field("address", &Merged("Addr", &Opaque("meta.Addr")), 14, 14), field("link", &Text, 14, 14), field("peerASN", &Uint(32), 14, 14),
        field("localASN", &Uint(32), 14, 14), field("passive", &Bool, 14, 14), field("holdTime", &Duration, 14, 14),
        field("bfd", &Ptr(&Named("network.BGPBFDConfig")), 14, 14), ] },
    Struct { name: "network.BlackholeRouteConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("name", &Text, 13, 14), field("metric", &Uint(32), 13, 14), ] },
    Struct { name: "network.BondConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("hardwareAddr", &Bytes("nethelpers.HardwareAddr"), 12, 14), field("links", &List(&Text), 12, 14),
        field("bondMode", &Ptr(&Enum("nethelpers.BondMode")), 12, 14), field("miimon", &Ptr(&Uint(32)), 12, 14),
        field("updelay", &Ptr(&Uint(32)), 12, 14), field("downdelay", &Ptr(&Uint(32)), 12, 14), field("useCarrier", &Ptr(&Bool), 12, 14),
        field("xmitHashPolicy", &Ptr(&Enum("nethelpers.BondXmitHashPolicy")), 12, 14), field("arpInterval", &Ptr(&Uint(32)), 12, 14),
        field("arpIpTargets", &List(&Opaque("netip.Addr")), 12, 14), field("nsIp6Targets", &List(&Opaque("netip.Addr")), 12, 14),
        field("arpValidate", &Ptr(&Enum("nethelpers.ARPValidate")), 12, 14), field("arpAllTargets", &Ptr(&Enum("nethelpers.ARPAllTargets")), 12, 14),
        field("lacpRate", &Ptr(&Enum("nethelpers.LACPRate")), 12, 14), field("failOverMac", &Ptr(&Enum("nethelpers.FailOverMAC")), 12, 14),
        field("adSelect", &Ptr(&Enum("nethelpers.ADSelect")), 12, 14), field("adActorSysPrio", &Ptr(&Uint(16)), 12, 14),
        field("adUserPortKey", &Ptr(&Uint(16)), 12, 14), field("adLACPActive", &Ptr(&Enum("nethelpers.ADLACPActive")), 12, 14),
        field("primaryReselect", &Ptr(&Enum("nethelpers.PrimaryReselect")), 12, 14), field("resendIGMP", &Ptr(&Uint(32)), 12, 14),
        field("minLinks", &Ptr(&Uint(32)), 12, 14), field("lpInterval", &Ptr(&Uint(32)), 12, 14), field("packetsPerSlave", &Ptr(&Uint(32)), 12, 14),
        field("numPeerNotif", &Ptr(&Uint(8)), 12, 14), field("tlbLogicalLb", &Ptr(&Uint(8)), 12, 14),
        field("allSlavesActive", &Ptr(&Uint(8)), 12, 14), field("peerNotifDelay", &Ptr(&Uint(32)), 12, 14),
        field("missedMax", &Ptr(&Uint(8)), 12, 14), field("up", &Ptr(&Bool), 12, 14), field("mtu", &Uint(32), 12, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 12, 14), field("routes", &List(&Named("network.RouteConfig")), 12, 14),
        field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.BridgeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("hardwareAddr", &Bytes("nethelpers.HardwareAddr"), 12, 14), field("links", &List(&Text), 12, 14),
        field("stp", &Named("network.BridgeSTPConfig"), 12, 14), field("vlan", &Named("network.BridgeVLANConfig"), 12, 14),
        field("up", &Ptr(&Bool), 12, 14), field("mtu", &Uint(32), 12, 14), field("addresses", &List(&Named("network.AddressConfig")), 12, 14),
        field("routes", &List(&Named("network.RouteConfig")), 12, 14), field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.BridgeSTPConfig", fields: &[
        field("enabled", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.BridgeVLANConfig", fields: &[
        field("filtering", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.DHCPv4ConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("routeMetric", &Uint(32), 12, 14),
        field("ignoreHostname", &Ptr(&Bool), 12, 14), field("clientIdentifier", &Ptr(&Enum("nethelpers.ClientIdentifier")), 12, 14),
        field("duidRaw", &Bytes("nethelpers.HardwareAddr"), 12, 14), field("ignoreRoutes", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "network.DHCPv6ConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("routeMetric", &Uint(32), 12, 14),
        field("ignoreHostname", &Ptr(&Bool), 12, 14), field("clientIdentifier", &Ptr(&Enum("nethelpers.ClientIdentifier")), 12, 14),
        field("duidRaw", &Bytes("nethelpers.HardwareAddr"), 12, 14), ] },
    Struct { name: "network.DefaultActionConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("ingress", &Enum("nethelpers.DefaultAction"), 10, 14), ] },
    Struct { name: "network.DummyLinkConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("hardwareAddr", &Bytes("nethelpers.HardwareAddr"), 12, 14), field("up", &Ptr(&Bool), 12, 14), field("mtu", &Uint(32), 12, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 12, 14), field("routes", &List(&Named("network.RouteConfig")), 12, 14),
        field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.EthernetChannelsConfig", fields: &[
        field("rx", &Ptr(&Uint(32)), 10, 14), field("tx", &Ptr(&Uint(32)), 10, 14), field("other", &Ptr(&Uint(32)), 10, 14),
        field("combined", &Ptr(&Uint(32)), 10, 14), ] },
    Struct { name: "network.EthernetConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14), field("features", &Map(&Bool), 10, 14),
        field("rings", &Ptr(&Named("network.EthernetRingsConfig")), 10, 14),
        field("channels", &Ptr(&Named("network.EthernetChannelsConfig")), 10, 14), field("wakeOnLan", &List(&Enum("nethelpers.WOLMode")), 12, 14), ] },
    Struct { name: "network.EthernetRingsConfig", fields: &[
        field("rx", &Ptr(&Uint(32)), 10, 14), field("tx", &Ptr(&Uint(32)), 10, 14), field("rx-mini", &Ptr(&Uint(32)), 10, 14),
        field("rx-jumbo", &Ptr(&Uint(32)), 10, 14), field("rx-buf-len", &Ptr(&Uint(32)), 10, 14), field("cqe-size", &Ptr(&Uint(32)), 10, 14),
        field("tx-push", &Ptr(&Bool), 10, 14), field("rx-push", &Ptr(&Bool), 10, 14), field("tx-push-buf-len", &Ptr(&Uint(32)), 10, 14),
        field("tcp-data-split", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "network.HCloudVIPConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("link", &Text, 12, 14),
        field("apiToken", &Text, 12, 14), ] },
    Struct { name: "network.HTTPProbeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("interval", &Duration, 14, 14),
        field("failureThreshold", &Int(64), 14, 14), field("url", &Url, 14, 14), field("timeout", &Duration, 14, 14), ] },
    Struct { name: "network.HostDNSConfig", fields: &[
        field("enabled", &Ptr(&Bool), 14, 14), field("forwardKubeDNSToHost", &Ptr(&Bool), 14, 14), field("resolveMemberNames", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "network.HostnameConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("auto", &Ptr(&Enum("nethelpers.AutoHostnameKind")), 12, 14),
        field("hostname", &Text, 12, 14), ] },
    Struct { name: "network.IngressRule", fields: &[
        field("subnet", &Opaque("netip.Prefix"), 10, 14), field("except", &Opaque("network.Prefix"), 10, 13),
        field("except", &Merged("Prefix", &Opaque("meta.Prefix")), 14, 14), ] },
    Struct { name: "network.KubeSpanConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("enabled", &Ptr(&Bool), 13, 14),
        field("advertiseKubernetesNetworks", &Ptr(&Bool), 13, 14), field("allowDownPeerBypass", &Ptr(&Bool), 13, 14),
        field("harvestExtraEndpoints", &Ptr(&Bool), 13, 14), field("mtu", &Ptr(&Uint(32)), 13, 14),
        field("filters", &Ptr(&Named("network.KubeSpanFiltersConfig")), 13, 14), ] },
    Struct { name: "network.KubeSpanFiltersConfig", fields: &[
        field("endpoints", &List(&Text), 13, 14), field("excludeAdvertisedNetworks", &List(&Opaque("network.Prefix")), 13, 13),
        field("excludeAdvertisedNetworks", &List(&Merged("Prefix", &Opaque("meta.Prefix"))), 14, 14), ] },
    Struct { name: "network.KubespanEndpointsConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("extraAnnouncedEndpoints", &List(&Opaque("netip.AddrPort")), 10, 14), ] },
    Struct { name: "network.Layer2VIPConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("link", &Text, 12, 14), ] },
    Struct { name: "network.LinkAliasConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14),
        field("selector", &Named("network.LinkSelector"), 12, 14), ] },
    Struct { name: "network.LinkConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("up", &Ptr(&Bool), 12, 14),
        field("mtu", &Uint(32), 12, 14), field("addresses", &List(&Named("network.AddressConfig")), 12, 14),
        field("routes", &List(&Named("network.RouteConfig")), 12, 14), field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.LinkSelector", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 12, 14), ] },
    Struct { name: "network.NTPConfig", fields: &[
        field("servers", &List(&Text), 12, 14), field("useNTS", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "network.NameserverConfig", fields: &[
        field("address", &Opaque("network.Addr"), 12, 13), field("address", &Merged("Addr", &Opaque("meta.Addr")), 14, 14),
        field("protocol", &Enum("nethelpers.DNSProtocol"), 14, 14), field("tlsServerName", &Text, 14, 14), ] },
    Struct { name: "network.PTPConfig", fields: &[
        field("devices", &List(&Text), 12, 14), ] },
    Struct { name: "network.ResolverConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("nameservers", &List(&Named("network.NameserverConfig")), 12, 14),
        field("searchDomains", &Named("network.SearchDomainsConfig"), 12, 14), field("hostDNS", &Named("network.HostDNSConfig"), 14, 14), ] },
    Struct { name: "network.RouteConfig", fields: &[
        field("destination", &Opaque("network.Prefix"), 12, 13), field("gateway", &Opaque("network.Addr"), 12, 13),
        field("source", &Opaque("network.Addr"), 12, 13), field("metric", &Uint(32), 12, 14), field("mtu", &Uint(32), 12, 14),
        field("table", &Enum("nethelpers.RoutingTable"), 12, 14), field("destination", &Merged("Prefix", &Opaque("meta.Prefix")), 14, 14),
        field("gateway", &Merged("Addr", &Opaque("meta.Addr")), 14, 14), field("source", &Merged("Addr", &Opaque("meta.Addr")), 14, 14), ] },
    Struct { name: "network.RoutingRuleConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("name", &Text, 13, 14),
        field("src", &Opaque("network.Prefix"), 13, 13), field("dst", &Opaque("network.Prefix"), 13, 13),
        field("table", &Enum("nethelpers.RoutingTable"), 13, 14), field("action", &Enum("nethelpers.RoutingRuleAction"), 13, 14),
        field("iifName", &Text, 13, 14), field("oifName", &Text, 13, 14), field("fwMark", &Uint(32), 13, 14), field("fwMask", &Uint(32), 13, 14),
        field("src", &Merged("Prefix", &Opaque("meta.Prefix")), 14, 14), field("dst", &Merged("Prefix", &Opaque("meta.Prefix")), 14, 14), ] },
    Struct { name: "network.RuleConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14),
        field("portSelector", &Named("network.RulePortSelector"), 10, 14), replaced("ingress", &List(&Named("network.IngressRule")), 10, 14), ] },
    Struct { name: "network.RulePortSelector", fields: &[
        replaced("ports", &List(&Opaque("network.PortRange")), 10, 14), field("protocol", &Enum("nethelpers.Protocol"), 10, 14), ] },
    Struct { name: "network.SearchDomainsConfig", fields: &[
        field("domains", &List(&Text), 12, 13), field("disableDefault", &Ptr(&Bool), 12, 14), replaced("domains", &List(&Text), 14, 14), ] },
    Struct { name: "network.StaticHostConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("hostnames", &List(&Text), 12, 14), ] },
    Struct { name: "network.TCPProbeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("name", &Text, 13, 14), field("interval", &Duration, 13, 14),
        field("failureThreshold", &Int(64), 13, 14), field("endpoint", &Text, 13, 14), field("timeout", &Duration, 13, 14), ] },
    Struct { name: "network.TimeSyncConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("enabled", &Ptr(&Bool), 12, 14),
        field("bootTimeout", &Duration, 12, 14), field("ntp", &Ptr(&Named("network.NTPConfig")), 12, 14),
        field("ptp", &Ptr(&Named("network.PTPConfig")), 12, 14), ] },
    Struct { name: "network.VLANConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("vlanID", &Uint(16), 12, 14),
        field("vlanMode", &Ptr(&Enum("nethelpers.VLANProtocol")), 12, 14), field("parent", &Text, 12, 14), field("up", &Ptr(&Bool), 12, 14),
        field("mtu", &Uint(32), 12, 14), field("addresses", &List(&Named("network.AddressConfig")), 12, 14),
        field("routes", &List(&Named("network.RouteConfig")), 12, 14), field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.VRFConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("name", &Text, 13, 14),
        field("hardwareAddr", &Bytes("nethelpers.HardwareAddr"), 13, 14), field("links", &List(&Text), 13, 14),
        field("table", &Enum("nethelpers.RoutingTable"), 13, 14), field("up", &Ptr(&Bool), 13, 14), field("mtu", &Uint(32), 13, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 13, 14), field("routes", &List(&Named("network.RouteConfig")), 13, 14),
        field("multicast", &Ptr(&Bool), 13, 14), ] },
    Struct { name: "network.VethConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14),
        field("peer", &Named("network.VethPeerConfig"), 14, 14), field("up", &Ptr(&Bool), 14, 14), field("mtu", &Uint(32), 14, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 14, 14), field("routes", &List(&Named("network.RouteConfig")), 14, 14),
        field("multicast", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "network.VethPeerConfig", fields: &[
        field("name", &Text, 14, 14), field("up", &Ptr(&Bool), 14, 14), field("mtu", &Uint(32), 14, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 14, 14), field("routes", &List(&Named("network.RouteConfig")), 14, 14),
        field("multicast", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "network.WireguardConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14), field("name", &Text, 12, 14), field("privateKey", &Text, 12, 14),
        field("listenPort", &Int(64), 12, 14), field("firewallMark", &Int(64), 12, 14),
        field("peers", &List(&Named("network.WireguardPeer")), 12, 14), field("up", &Ptr(&Bool), 12, 14), field("mtu", &Uint(32), 12, 14),
        field("addresses", &List(&Named("network.AddressConfig")), 12, 14), field("routes", &List(&Named("network.RouteConfig")), 12, 14),
        field("multicast", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "network.WireguardPeer", fields: &[
        field("publicKey", &Text, 12, 14), field("presharedKey", &Text, 12, 14), field("endpoint", &Opaque("network.AddrPort"), 12, 13),
        field("persistentKeepaliveInterval", &Duration, 12, 14), field("allowedIPs", &List(&Opaque("network.Prefix")), 12, 13),
        field("endpoint", &Merged("AddrPort", &Opaque("meta.AddrPort")), 14, 14),
        field("allowedIPs", &List(&Merged("Prefix", &Opaque("meta.Prefix"))), 14, 14), ] },
    Struct { name: "runtime.DiskSelectorSpec", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 14, 14), ] },
    Struct { name: "runtime.EnvironmentV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14), field("variables", &Map(&Text), 13, 14), ] },
    Struct { name: "runtime.EtcFileConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("mode", &Uint(32), 14, 14),
        field("contents", &Text, 14, 14), ] },
    Struct { name: "runtime.EventSinkV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("endpoint", &Text, 10, 14), ] },
    Struct { name: "runtime.InstallerSpec", fields: &[
        field("image", &Text, 14, 14), ] },
    Struct { name: "runtime.KernelModuleConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14), field("parameters", &List(&Text), 14, 14), ] },
    Struct { name: "runtime.KmsgLogV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14), field("url", &Url, 10, 14), ] },
    Struct { name: "runtime.OOMV1Alpha1", fields: &[
        field("apiVersion", &Text, 12, 14), field("kind", &Text, 12, 14),
        field("triggerExpression", &Merged("Expression", &Opaque("cel.Expression")), 12, 14),
        field("cgroupRankingExpression", &Merged("Expression", &Opaque("cel.Expression")), 12, 14), field("sampleInterval", &Duration, 12, 14),
        field("strictCgroupClassOrdering", &Ptr(&Bool), 13, 14), ] },
    Struct { name: "runtime.ProvisioningSpec", fields: &[
        field("diskSelector", &Named("runtime.DiskSelectorSpec"), 14, 14), field("wipe", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "runtime.SecurityProfileConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("workloadIsolation", &Ptr(&Bool), 14, 14), ] },
    Struct { name: "runtime.SysctlConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("params", &Map(&Text), 14, 14), ] },
    Struct { name: "runtime.SysfsConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("params", &Map(&Text), 14, 14), ] },
    Struct { name: "runtime.UdevRulesConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("rules", &List(&Text), 14, 14), ] },
    Struct { name: "runtime.UnattendedInstallConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("reboot", &Ptr(&Bool), 14, 14),
        field("installer", &Named("runtime.InstallerSpec"), 14, 14), field("provisioning", &Named("runtime.ProvisioningSpec"), 14, 14), ] },
    Struct { name: "runtime.WatchdogTimerV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("device", &Text, 10, 14), field("timeout", &Duration, 10, 14), ] },
    Struct { name: "security.ImageKeylessVerifierV1Alpha1", fields: &[
        field("issuer", &Text, 13, 14), field("subject", &Text, 13, 14), field("subjectRegex", &Text, 13, 14), ] },
    Struct { name: "security.ImagePublicKeyVerifierV1Alpha1", fields: &[
        field("certificate", &Text, 13, 14), ] },
    Struct { name: "security.ImageVerificationConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 13, 14), field("kind", &Text, 13, 14),
        field("rules", &Merged("ImageVerificationRules", &List(&Named("security.ImageVerificationRuleV1Alpha1"))), 13, 14), ] },
    Struct { name: "security.ImageVerificationRuleV1Alpha1", fields: &[
        field("image", &Text, 13, 14), field("skip", &Ptr(&Bool), 13, 14), field("deny", &Ptr(&Bool), 13, 14),
        field("keyless", &Ptr(&Named("security.ImageKeylessVerifierV1Alpha1")), 13, 14),
        field("publicKey", &Ptr(&Named("security.ImagePublicKeyVerifierV1Alpha1")), 13, 14), ] },
    Struct { name: "security.TrustedRootsConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("name", &Text, 10, 14), field("certificates", &Text, 10, 14), ] },
    Struct { name: "siderolink.ConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 10, 14), field("kind", &Text, 10, 14), field("apiUrl", &Url, 10, 14), field("uniqueToken", &Text, 10, 14), ] },
    Struct { name: "storage.LVMLogicalVolumeConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14),
        field("type", &Enum("storage.LVMLogicalVolumeType"), 14, 14), field("mirrors", &Ptr(&Uint(32)), 14, 14),
        field("stripes", &Ptr(&Uint(32)), 14, 14), field("provisioning", &Named("storage.LVMLogicalVolumeProvisioningSpec"), 14, 14), ] },
    Struct { name: "storage.LVMLogicalVolumeProvisioningSpec", fields: &[
        field("volumeGroup", &Text, 14, 14), field("minSize", &Merged("ByteSize", &Opaque("block.ByteSize")), 14, 14),
        field("maxSize", &Opaque("block.Size"), 14, 14), ] },
    Struct { name: "storage.LVMVolumeGroupConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14),
        field("provisioning", &Named("storage.ProvisioningSpec"), 14, 14), ] },
    Struct { name: "storage.LVMVolumeSelectorSpec", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 14, 14), ] },
    Struct { name: "storage.ProvisioningSpec", fields: &[
        field("volumeSelector", &Named("storage.LVMVolumeSelectorSpec"), 14, 14), ] },
    Struct { name: "storage.RAIDArrayConfigV1Alpha1", fields: &[
        field("apiVersion", &Text, 14, 14), field("kind", &Text, 14, 14), field("name", &Text, 14, 14),
        field("level", &Enum("storage.MDLevel"), 14, 14), field("metadata", &Enum("storage.MDMetadata"), 14, 14),
        field("provisioning", &Named("storage.RAIDProvisioningSpec"), 14, 14), ] },
    Struct { name: "storage.RAIDProvisioningSpec", fields: &[
        field("volumeSelector", &Named("storage.RAIDVolumeSelector"), 14, 14), ] },
    Struct { name: "storage.RAIDVolumeSelector", fields: &[
        field("match", &Merged("Expression", &Opaque("cel.Expression")), 14, 14), ] },
    Struct { name: "v1alpha1.APIServerConfig", fields: &[
        field("image", &Text, 10, 14), field("extraArgs", &Map(&Text), 10, 12),
        field("extraVolumes", &List(&Named("v1alpha1.VolumeMountConfig")), 10, 14), field("env", &Map(&Text), 10, 14),
        field("certSANs", &List(&Text), 10, 14), field("disablePodSecurityPolicy", &Ptr(&Bool), 10, 14),
        field("admissionControl", &Merged("AdmissionPluginConfigList", &List(&Ptr(&Named("v1alpha1.AdmissionPluginConfig")))), 10, 14),
        replaced("auditPolicy", &Unstructured, 10, 14), field("resources", &Ptr(&Named("v1alpha1.ResourcesConfig")), 10, 14),
        field("authorizationConfig", &List(&Ptr(&Named("v1alpha1.AuthorizationConfigAuthorizerConfig"))), 10, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.AdminKubeconfigConfig", fields: &[
        field("certLifetime", &Duration, 10, 14), ] },
    Struct { name: "v1alpha1.AdmissionPluginConfig", fields: &[
        field("name", &Text, 10, 14), field("configuration", &Unstructured, 10, 14), ] },
    Struct { name: "v1alpha1.AuthorizationConfigAuthorizerConfig", fields: &[
        field("type", &Text, 10, 14), field("name", &Text, 10, 14), field("webhook", &Unstructured, 10, 14), ] },
    Struct { name: "v1alpha1.Bond", fields: &[
        field("interfaces", &List(&Text), 10, 14), field("deviceSelectors", &List(&Named("v1alpha1.NetworkDeviceSelector")), 10, 14),
        field("arpIPTarget", &List(&Text), 10, 14), field("mode", &Text, 10, 14), field("xmitHashPolicy", &Text, 10, 14),
        field("lacpRate", &Text, 10, 14), field("adActorSystem", &Text, 10, 14), field("arpValidate", &Text, 10, 14),
        field("arpAllTargets", &Text, 10, 14), field("primary", &Text, 10, 14), field("primaryReselect", &Text, 10, 14),
        field("failOverMac", &Text, 10, 14), field("adSelect", &Text, 10, 14), field("miimon", &Uint(32), 10, 14),
        field("updelay", &Uint(32), 10, 14), field("downdelay", &Uint(32), 10, 14), field("arpInterval", &Uint(32), 10, 14),
        field("resendIgmp", &Uint(32), 10, 14), field("minLinks", &Uint(32), 10, 14), field("lpInterval", &Uint(32), 10, 14),
        field("packetsPerSlave", &Uint(32), 10, 14), field("numPeerNotif", &Uint(8), 10, 14), field("tlbDynamicLb", &Uint(8), 10, 14),
        field("allSlavesActive", &Uint(8), 10, 14), field("useCarrier", &Ptr(&Bool), 10, 14), field("adActorSysPrio", &Uint(16), 10, 14),
        field("adUserPortKey", &Uint(16), 10, 14), field("peerNotifyDelay", &Uint(32), 10, 14), ] },
    Struct { name: "v1alpha1.Bridge", fields: &[
        field("interfaces", &List(&Text), 10, 14), field("stp", &Ptr(&Named("v1alpha1.STP")), 10, 14),
        field("vlan", &Ptr(&Named("v1alpha1.BridgeVLAN")), 10, 14), ] },
    Struct { name: "v1alpha1.BridgePort", fields: &[
        field("master", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.BridgeVLAN", fields: &[
        field("vlanFiltering", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.CNIConfig", fields: &[
        field("name", &Text, 10, 14), field("urls", &List(&Text), 10, 14), field("flannel", &Ptr(&Named("v1alpha1.FlannelCNIConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.ClusterConfig", fields: &[
        field("id", &Text, 10, 14), field("secret", &Text, 10, 14), field("controlPlane", &Ptr(&Named("v1alpha1.ControlPlaneConfig")), 10, 14),
        field("clusterName", &Text, 10, 14), field("network", &Ptr(&Named("v1alpha1.ClusterNetworkConfig")), 10, 14), field("token", &Text, 10, 14),
        field("aescbcEncryptionSecret", &Text, 10, 14), field("secretboxEncryptionSecret", &Text, 10, 14),
        field("ca", &Ptr(&Opaque("x509.PEMEncodedCertificateAndKey")), 10, 14),
        field("acceptedCAs", &List(&Ptr(&Opaque("x509.PEMEncodedCertificate"))), 10, 14),
        field("aggregatorCA", &Ptr(&Opaque("x509.PEMEncodedCertificateAndKey")), 10, 14),
        field("serviceAccount", &Ptr(&Opaque("x509.PEMEncodedKey")), 10, 14), field("apiServer", &Ptr(&Named("v1alpha1.APIServerConfig")), 10, 14),
        field("controllerManager", &Ptr(&Named("v1alpha1.ControllerManagerConfig")), 10, 14),
        field("proxy", &Ptr(&Named("v1alpha1.ProxyConfig")), 10, 14), field("scheduler", &Ptr(&Named("v1alpha1.SchedulerConfig")), 10, 14),
        field("discovery", &Ptr(&Named("v1alpha1.ClusterDiscoveryConfig")), 10, 14), field("etcd", &Ptr(&Named("v1alpha1.EtcdConfig")), 10, 14),
        field("coreDNS", &Ptr(&Named("v1alpha1.CoreDNS")), 10, 14),
        field("externalCloudProvider", &Ptr(&Named("v1alpha1.ExternalCloudProviderConfig")), 10, 14), field("extraManifests", &List(&Text), 10, 14),
        field("extraManifestHeaders", &Map(&Text), 10, 14), field("inlineManifests", &List(&Named("v1alpha1.ClusterInlineManifest")), 10, 14),
        field("adminKubeconfig", &Ptr(&Named("v1alpha1.AdminKubeconfigConfig")), 10, 14), field("allowSchedulingOnMasters", &Ptr(&Bool), 10, 14),
        field("allowSchedulingOnControlPlanes", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.ClusterDiscoveryConfig", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("registries", &Named("v1alpha1.DiscoveryRegistriesConfig"), 10, 14), ] },
    Struct { name: "v1alpha1.ClusterInlineManifest", fields: &[
        field("name", &Text, 10, 14), field("contents", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.ClusterNetworkConfig", fields: &[
        field("cni", &Ptr(&Named("v1alpha1.CNIConfig")), 10, 14), field("dnsDomain", &Text, 10, 14), replaced("podSubnets", &List(&Text), 10, 14),
        replaced("serviceSubnets", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.Config", fields: &[
        field("version", &Text, 10, 14), field("debug", &Ptr(&Bool), 10, 14), field("persist", &Ptr(&Bool), 10, 14),
        field("machine", &Ptr(&Named("v1alpha1.MachineConfig")), 10, 14), field("cluster", &Ptr(&Named("v1alpha1.ClusterConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.ControlPlaneConfig", fields: &[
        field("endpoint", &Ptr(&Url), 10, 14), field("localAPIServerPort", &Int(64), 10, 14), ] },
    Struct { name: "v1alpha1.ControllerManagerConfig", fields: &[
        field("image", &Text, 10, 14), field("extraArgs", &Map(&Text), 10, 12),
        field("extraVolumes", &List(&Named("v1alpha1.VolumeMountConfig")), 10, 14), field("env", &Map(&Text), 10, 14),
        field("resources", &Ptr(&Named("v1alpha1.ResourcesConfig")), 10, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.CoreDNS", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), field("image", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.DHCPOptions", fields: &[
        field("routeMetric", &Uint(32), 10, 14), field("ipv4", &Ptr(&Bool), 10, 14), field("ipv6", &Ptr(&Bool), 10, 14),
        field("duidv6", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.Device", fields: &[
        field("interface", &Text, 10, 14), field("deviceSelector", &Ptr(&Named("v1alpha1.NetworkDeviceSelector")), 10, 14),
        field("addresses", &List(&Text), 10, 14), field("cidr", &Text, 10, 14), field("routes", &List(&Ptr(&Named("v1alpha1.Route"))), 10, 14),
        field("bond", &Ptr(&Named("v1alpha1.Bond")), 10, 14), field("bridge", &Ptr(&Named("v1alpha1.Bridge")), 10, 14),
        field("bridgePort", &Ptr(&Named("v1alpha1.BridgePort")), 10, 14),
        field("vlans", &Merged("VlanList", &List(&Ptr(&Named("v1alpha1.Vlan")))), 10, 14), field("mtu", &Int(64), 10, 14),
        field("dhcp", &Ptr(&Bool), 10, 14), field("ignore", &Ptr(&Bool), 10, 14), field("dummy", &Ptr(&Bool), 10, 14),
        field("dhcpOptions", &Ptr(&Named("v1alpha1.DHCPOptions")), 10, 14),
        field("wireguard", &Ptr(&Named("v1alpha1.DeviceWireguardConfig")), 10, 14), field("vip", &Ptr(&Named("v1alpha1.DeviceVIPConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.DeviceVIPConfig", fields: &[
        field("ip", &Text, 10, 14), field("equinixMetal", &Ptr(&Named("v1alpha1.VIPEquinixMetalConfig")), 10, 14),
        field("hcloud", &Ptr(&Named("v1alpha1.VIPHCloudConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.DeviceWireguardConfig", fields: &[
        field("privateKey", &Text, 10, 14), field("listenPort", &Int(64), 10, 14), field("firewallMark", &Int(64), 10, 14),
        field("peers", &List(&Ptr(&Named("v1alpha1.DeviceWireguardPeer"))), 10, 14), ] },
    Struct { name: "v1alpha1.DeviceWireguardPeer", fields: &[
        field("publicKey", &Text, 10, 14), field("endpoint", &Text, 10, 14), field("persistentKeepaliveInterval", &Duration, 10, 14),
        field("allowedIPs", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.DiscoveryRegistriesConfig", fields: &[
        field("kubernetes", &Named("v1alpha1.RegistryKubernetesConfig"), 10, 14), field("service", &Named("v1alpha1.RegistryServiceConfig"), 10, 14), ] },
    Struct { name: "v1alpha1.DiskPartition", fields: &[
        field("size", &Enum("v1alpha1.DiskSize"), 10, 14), field("mountpoint", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.EncryptionConfig", fields: &[
        field("provider", &Text, 10, 14), field("keys", &List(&Ptr(&Named("v1alpha1.EncryptionKey"))), 10, 14), field("cipher", &Text, 10, 14),
        field("keySize", &Uint(64), 10, 14), field("blockSize", &Uint(64), 10, 14), field("options", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.EncryptionKey", fields: &[
        field("static", &Ptr(&Named("v1alpha1.EncryptionKeyStatic")), 10, 14), field("nodeID", &Ptr(&Named("v1alpha1.EncryptionKeyNodeID")), 10, 14),
        field("kms", &Ptr(&Named("v1alpha1.EncryptionKeyKMS")), 10, 14), field("slot", &Int(64), 10, 14),
        field("tpm", &Ptr(&Named("v1alpha1.EncryptionKeyTPM")), 10, 14), ] },
    Struct { name: "v1alpha1.EncryptionKeyKMS", fields: &[
        field("endpoint", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.EncryptionKeyNodeID", fields: &[ ] },
    Struct { name: "v1alpha1.EncryptionKeyStatic", fields: &[
        field("passphrase", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.EncryptionKeyTPM", fields: &[
        field("checkSecurebootStatusOnEnroll", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.EtcdConfig", fields: &[
        field("image", &Text, 10, 14), field("ca", &Ptr(&Opaque("x509.PEMEncodedCertificateAndKey")), 10, 14),
        field("extraArgs", &Map(&Text), 10, 12), field("subnet", &Text, 10, 14), field("advertisedSubnets", &List(&Text), 10, 14),
        field("listenSubnets", &List(&Text), 10, 14), field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.ExternalCloudProviderConfig", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("manifests", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.ExtraHost", fields: &[
        field("ip", &Text, 10, 14), field("aliases", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.ExtraMount", fields: &[
        field("destination", &Text, 10, 14), field("type", &Text, 10, 14), field("source", &Text, 10, 14), field("options", &List(&Text), 10, 14),
        field("uidMappings", &List(&Named("v1alpha1.LinuxIDMapping")), 10, 14),
        field("gidMappings", &List(&Named("v1alpha1.LinuxIDMapping")), 10, 14), ] },
    Struct { name: "v1alpha1.FeaturesConfig", fields: &[
        field("rbac", &Ptr(&Bool), 10, 14), field("stableHostname", &Ptr(&Bool), 10, 14),
        field("kubernetesTalosAPIAccess", &Ptr(&Named("v1alpha1.KubernetesTalosAPIAccessConfig")), 10, 14),
        field("apidCheckExtKeyUsage", &Ptr(&Bool), 10, 14), field("diskQuotaSupport", &Ptr(&Bool), 10, 14),
        field("kubePrism", &Ptr(&Named("v1alpha1.KubePrism")), 10, 14), field("hostDNS", &Ptr(&Named("v1alpha1.HostDNSConfig")), 10, 14),
        field("imageCache", &Ptr(&Named("v1alpha1.ImageCacheConfig")), 10, 14), field("nodeAddressSortAlgorithm", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.FlannelCNIConfig", fields: &[
        field("extraArgs", &List(&Text), 10, 14), field("kubeNetworkPoliciesEnabled", &Ptr(&Bool), 13, 14), ] },
    Struct { name: "v1alpha1.HostDNSConfig", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("forwardKubeDNSToHost", &Ptr(&Bool), 10, 14), field("resolveMemberNames", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.ImageCacheConfig", fields: &[
        field("localEnabled", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.InstallConfig", fields: &[
        field("disk", &Text, 10, 14), field("diskSelector", &Ptr(&Named("v1alpha1.InstallDiskSelector")), 10, 14),
        field("extraKernelArgs", &List(&Text), 10, 14), field("image", &Text, 10, 14),
        field("extensions", &List(&Named("v1alpha1.InstallExtensionConfig")), 10, 14), field("bootloader", &Ptr(&Bool), 10, 14),
        field("wipe", &Ptr(&Bool), 10, 14), field("legacyBIOSSupport", &Ptr(&Bool), 10, 14), field("grubUseUKICmdline", &Ptr(&Bool), 12, 14), ] },
    Struct { name: "v1alpha1.InstallDiskSelector", fields: &[
        field("size", &Ptr(&Opaque("v1alpha1.InstallDiskSizeMatcher")), 10, 14), field("name", &Text, 10, 14), field("model", &Text, 10, 14),
        field("serial", &Text, 10, 14), field("modalias", &Text, 10, 14), field("uuid", &Text, 10, 14), field("wwid", &Text, 10, 14),
        field("type", &Text, 10, 14), field("busPath", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.InstallExtensionConfig", fields: &[
        field("image", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.KernelConfig", fields: &[
        field("modules", &List(&Ptr(&Named("v1alpha1.KernelModuleConfig"))), 10, 14), ] },
    Struct { name: "v1alpha1.KernelModuleConfig", fields: &[
        field("name", &Text, 10, 14), field("parameters", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.KubePrism", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("port", &Int(64), 10, 14), ] },
    Struct { name: "v1alpha1.KubeSpanFilters", fields: &[
        field("endpoints", &List(&Text), 10, 14), field("excludeAdvertisedNetworks", &List(&Text), 12, 14), ] },
    Struct { name: "v1alpha1.KubeletConfig", fields: &[
        field("image", &Text, 10, 14), field("clusterDNS", &List(&Text), 10, 14), field("extraArgs", &Map(&Text), 10, 12),
        field("extraMounts", &List(&Named("v1alpha1.ExtraMount")), 10, 14), field("extraConfig", &Unstructured, 10, 14),
        field("credentialProviderConfig", &Unstructured, 10, 14), field("defaultRuntimeSeccompProfileEnabled", &Ptr(&Bool), 10, 14),
        field("registerWithFQDN", &Ptr(&Bool), 10, 14), field("nodeIP", &Ptr(&Named("v1alpha1.KubeletNodeIPConfig")), 10, 14),
        field("skipNodeRegistration", &Ptr(&Bool), 10, 14), field("disableManifestsDirectory", &Ptr(&Bool), 10, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.KubeletNodeIPConfig", fields: &[
        field("validSubnets", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.KubernetesTalosAPIAccessConfig", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("allowedRoles", &List(&Text), 10, 14),
        field("allowedKubernetesNamespaces", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.LinuxIDMapping", fields: &[
        field("containerID", &Uint(32), 10, 14), field("hostID", &Uint(32), 10, 14), field("size", &Uint(32), 10, 14), ] },
    Struct { name: "v1alpha1.LoggingConfig", fields: &[
        field("destinations", &List(&Named("v1alpha1.LoggingDestination")), 10, 14), ] },
    Struct { name: "v1alpha1.LoggingDestination", fields: &[
        field("endpoint", &Ptr(&Url), 10, 14), field("format", &Text, 10, 14), field("extraTags", &Map(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.MachineConfig", fields: &[
        field("type", &Text, 10, 14), field("token", &Text, 10, 14), field("ca", &Ptr(&Opaque("x509.PEMEncodedCertificateAndKey")), 10, 14),
        field("acceptedCAs", &List(&Ptr(&Opaque("x509.PEMEncodedCertificate"))), 10, 14), field("certSANs", &List(&Text), 10, 14),
        field("controlPlane", &Ptr(&Named("v1alpha1.MachineControlPlaneConfig")), 10, 14),
        field("kubelet", &Ptr(&Named("v1alpha1.KubeletConfig")), 10, 14), field("pods", &List(&Unstructured), 10, 14),
        field("network", &Ptr(&Named("v1alpha1.NetworkConfig")), 10, 14), field("disks", &List(&Ptr(&Named("v1alpha1.MachineDisk"))), 10, 14),
        field("install", &Ptr(&Named("v1alpha1.InstallConfig")), 10, 14), field("files", &List(&Ptr(&Named("v1alpha1.MachineFile"))), 10, 14),
        field("env", &Map(&Text), 10, 14), field("time", &Ptr(&Named("v1alpha1.TimeConfig")), 10, 14), field("sysctls", &Map(&Text), 10, 14),
        field("sysfs", &Map(&Text), 10, 14), field("registries", &Named("v1alpha1.RegistriesConfig"), 10, 14),
        field("systemDiskEncryption", &Ptr(&Named("v1alpha1.SystemDiskEncryptionConfig")), 10, 14),
        field("features", &Ptr(&Named("v1alpha1.FeaturesConfig")), 10, 14), field("udev", &Ptr(&Named("v1alpha1.UdevConfig")), 10, 14),
        field("logging", &Ptr(&Named("v1alpha1.LoggingConfig")), 10, 14), field("kernel", &Ptr(&Named("v1alpha1.KernelConfig")), 10, 14),
        field("seccompProfiles", &List(&Ptr(&Named("v1alpha1.MachineSeccompProfile"))), 10, 14),
        field("baseRuntimeSpecOverrides", &Unstructured, 10, 14), field("nodeLabels", &Map(&Text), 10, 14),
        field("nodeAnnotations", &Map(&Text), 10, 14), field("nodeTaints", &Map(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.MachineControlPlaneConfig", fields: &[
        field("controllerManager", &Ptr(&Named("v1alpha1.MachineControllerManagerConfig")), 10, 14),
        field("scheduler", &Ptr(&Named("v1alpha1.MachineSchedulerConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.MachineControllerManagerConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.MachineDisk", fields: &[
        field("device", &Text, 10, 14), field("partitions", &List(&Ptr(&Named("v1alpha1.DiskPartition"))), 10, 14), ] },
    Struct { name: "v1alpha1.MachineFile", fields: &[
        field("content", &Text, 10, 14), field("permissions", &Uint(32), 10, 14), field("path", &Text, 10, 14), field("op", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.MachineSchedulerConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.MachineSeccompProfile", fields: &[
        field("name", &Text, 10, 14), field("value", &Unstructured, 10, 14), ] },
    Struct { name: "v1alpha1.NetworkConfig", fields: &[
        field("hostname", &Text, 10, 14), field("interfaces", &Merged("NetworkDeviceList", &List(&Ptr(&Named("v1alpha1.Device")))), 10, 14),
        field("nameservers", &List(&Text), 10, 14), field("searchDomains", &List(&Text), 10, 14),
        field("extraHostEntries", &List(&Ptr(&Named("v1alpha1.ExtraHost"))), 10, 14),
        field("kubespan", &Ptr(&Named("v1alpha1.NetworkKubeSpan")), 10, 14), field("disableSearchDomain", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.NetworkDeviceSelector", fields: &[
        field("busPath", &Text, 10, 14), field("hardwareAddr", &Text, 10, 14), field("permanentAddr", &Text, 10, 14), field("pciID", &Text, 10, 14),
        field("driver", &Text, 10, 14), field("physical", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.NetworkKubeSpan", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), field("advertiseKubernetesNetworks", &Ptr(&Bool), 10, 14),
        field("allowDownPeerBypass", &Ptr(&Bool), 10, 14), field("harvestExtraEndpoints", &Ptr(&Bool), 10, 14), field("mtu", &Ptr(&Uint(32)), 10, 14),
        field("filters", &Ptr(&Named("v1alpha1.KubeSpanFilters")), 10, 14), ] },
    Struct { name: "v1alpha1.ProxyConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), field("image", &Text, 10, 14), field("mode", &Text, 10, 14), field("extraArgs", &Map(&Text), 10, 12),
        field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.RegistriesConfig", fields: &[
        field("mirrors", &Map(&Ptr(&Named("v1alpha1.RegistryMirrorConfig"))), 10, 14),
        field("config", &Map(&Ptr(&Named("v1alpha1.RegistryConfig"))), 10, 14), ] },
    Struct { name: "v1alpha1.RegistryAuthConfig", fields: &[
        field("username", &Text, 10, 14), field("password", &Text, 10, 14), field("auth", &Text, 10, 14), field("identityToken", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.RegistryConfig", fields: &[
        field("tls", &Ptr(&Named("v1alpha1.RegistryTLSConfig")), 10, 14), field("auth", &Ptr(&Named("v1alpha1.RegistryAuthConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.RegistryKubernetesConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.RegistryMirrorConfig", fields: &[
        field("endpoints", &List(&Text), 10, 14), field("overridePath", &Ptr(&Bool), 10, 14), field("skipFallback", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.RegistryServiceConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), field("endpoint", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.RegistryTLSConfig", fields: &[
        field("clientIdentity", &Ptr(&Opaque("x509.PEMEncodedCertificateAndKey")), 10, 14), field("ca", &Bytes("v1alpha1.Base64Bytes"), 10, 14),
        field("insecureSkipVerify", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.ResourcesConfig", fields: &[
        field("requests", &Unstructured, 10, 14), field("limits", &Unstructured, 10, 14), ] },
    Struct { name: "v1alpha1.Route", fields: &[
        field("network", &Text, 10, 14), field("gateway", &Text, 10, 14), field("source", &Text, 10, 14), field("metric", &Uint(32), 10, 14),
        field("mtu", &Uint(32), 10, 14), ] },
    Struct { name: "v1alpha1.STP", fields: &[
        field("enabled", &Ptr(&Bool), 10, 14), ] },
    Struct { name: "v1alpha1.SchedulerConfig", fields: &[
        field("image", &Text, 10, 14), field("extraArgs", &Map(&Text), 10, 12),
        field("extraVolumes", &List(&Named("v1alpha1.VolumeMountConfig")), 10, 14), field("env", &Map(&Text), 10, 14),
        field("resources", &Ptr(&Named("v1alpha1.ResourcesConfig")), 10, 14), field("config", &Unstructured, 10, 14),
        field("extraArgs", &Merged("Args", &Map(&Opaque("v1alpha1.ArgValue"))), 13, 13),
        field("extraArgs", &Merged("Args", &Map(&Opaque("meta.ArgValue"))), 14, 14), ] },
    Struct { name: "v1alpha1.SystemDiskEncryptionConfig", fields: &[
        field("state", &Ptr(&Named("v1alpha1.EncryptionConfig")), 10, 14), field("ephemeral", &Ptr(&Named("v1alpha1.EncryptionConfig")), 10, 14), ] },
    Struct { name: "v1alpha1.TimeConfig", fields: &[
        field("disabled", &Ptr(&Bool), 10, 14), field("servers", &List(&Text), 10, 14), field("bootTimeout", &Duration, 10, 14), ] },
    Struct { name: "v1alpha1.UdevConfig", fields: &[
        field("rules", &List(&Text), 10, 14), ] },
    Struct { name: "v1alpha1.VIPEquinixMetalConfig", fields: &[
        field("apiToken", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.VIPHCloudConfig", fields: &[
        field("apiToken", &Text, 10, 14), ] },
    Struct { name: "v1alpha1.Vlan", fields: &[
        field("addresses", &List(&Text), 10, 14), field("cidr", &Text, 10, 14), field("routes", &List(&Ptr(&Named("v1alpha1.Route"))), 10, 14),
        field("dhcp", &Ptr(&Bool), 10, 14), field("vlanId", &Uint(16), 10, 14), field("mtu", &Uint(32), 10, 14),
        field("vip", &Ptr(&Named("v1alpha1.DeviceVIPConfig")), 10, 14), field("dhcpOptions", &Ptr(&Named("v1alpha1.DHCPOptions")), 10, 14), ] },
    Struct { name: "v1alpha1.VolumeMountConfig", fields: &[
        field("hostPath", &Text, 10, 14), field("mountPath", &Text, 10, 14), field("readonly", &Bool, 10, 14), ] },
];

#[rustfmt::skip]
pub(super) static WORDS: &[(&str, &str, &[&str])] = &[
    ("block.EncryptionProviderType", "none", &["luks2", "none"]),
    ("block.FilesystemType", "none", &["btrfs", "ext4", "iso9660", "none", "swap", "swapi", "vfat", "virtiofs", "xfs"]),
    ("block.VolumeType", "partition", &["directory", "disk", "external", "overlay", "partition", "symlink", "tmpfs"]),
    ("nethelpers.ADLACPActive", "off", &["off", "on"]),
    ("nethelpers.ADSelect", "stable", &["bandwidth", "count", "stable"]),
    ("nethelpers.ARPAllTargets", "any", &["all", "any"]),
    ("nethelpers.ARPValidate", "none", &["active", "all", "backup", "filter", "filter-active", "filter-backup", "none"]),
    ("nethelpers.AutoHostnameKind", "off", &["off", "stable", "talos-addr"]),
    ("nethelpers.BondMode", "balance-rr", &["802.3ad", "active-backup", "balance-alb", "balance-rr", "balance-tlb", "balance-xor", "broadcast"]),
    ("nethelpers.BondXmitHashPolicy", "layer2", &["encap2+3", "encap3+4", "layer2", "layer2+3", "layer3+4"]),
    ("nethelpers.ClientIdentifier", "none", &["duid", "mac", "none"]),
    ("nethelpers.DNSProtocol", "Do53", &["Do53", "DoH", "DoT"]),
    ("nethelpers.DefaultAction", "accept", &["accept", "block"]),
    ("nethelpers.LACPRate", "slow", &["fast", "slow"]),
    ("nethelpers.PrimaryReselect", "always", &["always", "better", "failure"]),
    ("nethelpers.Protocol", "", &["icmp", "icmpv6", "tcp", "udp"]),
    ("nethelpers.RoutingRuleAction", "unspec", &["blackhole", "prohibit", "unicast", "unreachable", "unspec"]),
    ("nethelpers.VLANProtocol", "", &["802.1ad", "802.1q"]),
    ("nethelpers.WOLMode", "", &["broadcast", "filter", "magic", "magicsecure", "multicast", "phy", "unicast"]),
    ("storage.LVMLogicalVolumeType", "linear", &["linear", "raid0", "raid1", "raid10"]),
    ("storage.MDMetadata", "1.0", &["1.0", "1.2"]),
];
