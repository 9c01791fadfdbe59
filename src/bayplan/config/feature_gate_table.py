"""The feature gates that the binary of kube-scheduler v1.37 has, of all components.

``e2e/configcheck gates`` prints them; a test compares.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Stage(enum.StrEnum):
    """How far a feature has come; the value is the label in metrics."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """One gate.

    Attributes:
        locked: whether it cannot be set to another value than its default.
    """

    name: str
    stage: Stage
    default: bool
    locked: bool


_TABLE = (
    (
        Stage.ALPHA,
        False,
        False,
        """
    APIServerWebhookAuthenticationToken APIServingWithRoutine AllAlpha AtomicWriteVolumeUserFields
    CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth
    ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook CompositePodGroup ConsistentListFromCacheSkipTimeoutFallback
    ContainerStopSignals CrossNamespaceVolumeDataSource DRADerivedAttributes
    DRADeviceCompatibilityGroups DRAListTypeAttributes DRANodeAllocatableResources
    DRAOptionalNodeOperations DRAPartitionableDevicesType DRAResourcePoolStatus
    DefaultPodSysctls EmptyDirVolumeMode EventedPLEG EvictionRequestAPI GRPCContainerProbeTLS
    H2CContainerProbe ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingMemoryBackedVolumes
    InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath
    KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint MutablePVNodeAffinity
    NodeLifecycleConditions PodGroupPreemptionPolicy PodLogsQuerySplitStreams QOSReserved
    ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi SchedulerPreQueueingHints
    ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI
    TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeBindMountOptions
    WindowsCPUAndMemoryAffinity WorkloadWithJob
        """,
    ),
    (
        Stage.BETA,
        False,
        False,
        """
    AllBeta CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims
    GenericWorkload LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI
    PodLevelResourceManagers SchedulerAsyncAPICalls
        """,
    ),
    (
        Stage.BETA,
        True,
        False,
        """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
    AllowUnsafeMalformedObjectDeletion AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission
    CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
    ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC
    ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation
    ContainerCheckpoint ContainerRestartRules DRAConsumableCapacity DRADeviceBindingConditions
    DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization
    DRASchedulerFilterTimeout DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
    DetectCacheInconsistency EnvFiles EtcdRangeStream ExcludeAdmissionWebhookVirtualResources
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction
    InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
    KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
    ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker
    NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching
    PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResources
    PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass
    PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
    ResourceHealthStatusMessage RestartAllContainersOnContainerExits
    RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
    ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison
    StorageCapacityScoring StorageVersionHash StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO VolumeLimitScaling WatchList WatchListClient WatchListCompression
    WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown
        """,
    ),
    (
        Stage.GA,
        True,
        False,
        """
    AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection
    CustomCPUCFSQuotaPeriod DRADeviceTaintRules DRADeviceTaints InformerResourceVersion
    MutatingAdmissionPolicy PodCertificateRequest SELinuxMount StorageVersionMigrator
        """,
    ),
    (
        Stage.GA,
        True,
        True,
        """
    CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
    CustomResourceFieldSelectors DRAAdminAccess DRAExtendedResource DRAPrioritizedList
    DRAResourceClaimDeviceStatus DeclarativeValidation DisableAllocatorDualWrite
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
    HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers
    InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers JobManagedBy
    KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
    MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
    NFTablesProxyMode NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery
    NodeSwap PLEGOnDemandRelist PodObservedGenerationTracking PodReadyToStartContainersCondition
    PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType
    RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation
    RelaxedServiceNameValidation SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
    VolumeAttributesClass WatchCacheInitializationPostStartHook WinDSR WinOverlay
        """,
    ),
    (
        Stage.DEPRECATED,
        False,
        False,
        """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    ChangeContainerStatusOnKubeletRestart KMSv1 KubeletRegistrationGetOnExistsOnly
    WindowsHostNetwork
        """,
    ),
    (
        Stage.DEPRECATED,
        False,
        True,
        """
    AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover
    GitRepoVolumeDriver SeparateCacheWatchRPC
        """,
    ),
    (
        Stage.DEPRECATED,
        True,
        False,
        """
    KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
    StorageNamespaceIndex
        """,
    ),
    (
        Stage.DEPRECATED,
        True,
        True,
        """
    AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs
    DisableNodeKubeProxyVersion
        """,
    ),
)
GATES: Mapping[str, FeatureGate] = {
    name: FeatureGate(name, stage, default, locked)
    for stage, default, locked, names in _TABLE
    for name in names.split()
}
"""By name."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "CompositePodGroup": (
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
    ),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAPartitionableDevicesType": (
        "DRAPartitionableDevices",
        "DRAResourcePoolStatus",
    ),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "NodeControllerLeaseCircuitBreaker": ("AtomicFIFO",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLevelResourcesFixDefaulting": ("PodLevelResources",),
    "PodLevelResourcesFixKubeletQOSClass": ("PodLevelResources",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules",),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyHPA": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadWithJob": ("GenericWorkload",),
}
"""What a gate needs to be on where it is on, but for what cannot be switched off."""
