"""Names that old configurations use, and what has taken their place.

Of three kinds: predicates and priorities of the Policy API, plugins of the versions v1alpha1 to
v1beta3, and fields that moved. The texts on plugins complete "replaced by ...".
"""

from __future__ import annotations

from types import MappingProxyType

_FIT = "NodeResourcesFit"
_SPREAD = "PodTopologySpread"
_AFFINITY = "NodeAffinity"
_LIMITS = "NodeVolumeLimits"
_TAINTS = "TaintToleration, which reads the taint that the node controller sets"
_LABEL = "NodeAffinity with addedAffinity"
_SERVICE = "InterPodAffinity or PodTopologySpread in the Pods themselves"
_SERVICE_SPREAD = "PodTopologySpread, which spreads the Pods of a Service or workload by default"

# What took the place of predicates, priorities and plugins, by the name of each.
LEGACY_PLUGINS = MappingProxyType(
    {
        # predicates
        "PodFitsResources": _FIT,
        "PodFitsHostPorts": "NodePorts",
        "PodFitsPorts": "NodePorts",
        "HostName": "NodeName",
        "PodFitsHost": "NodeName",
        "MatchNodeSelector": _AFFINITY,
        "NoDiskConflict": "VolumeRestrictions",
        "NoVolumeZoneConflict": "VolumeZone",
        "CheckVolumeBinding": "VolumeBinding",
        "NoVolumeNodeConflict": "VolumeBinding",
        "MaxEBSVolumeCount": _LIMITS,
        "MaxGCEPDVolumeCount": _LIMITS,
        "MaxAzureDiskVolumeCount": _LIMITS,
        "MaxCinderVolumeCount": _LIMITS,
        "MaxCSIVolumeCount": _LIMITS,
        "MaxCSIVolumeCountPred": _LIMITS,
        "GeneralPredicates": "NodeResourcesFit, NodeName, NodePorts and NodeAffinity",
        "PodToleratesNodeTaints": "TaintToleration",
        "PodToleratesNodeNoExecuteTaints": "TaintToleration",
        "CheckNodeUnschedulable": "NodeUnschedulable",
        "CheckNodeCondition": _TAINTS,
        "CheckNodeMemoryPressure": _TAINTS,
        "CheckNodeDiskPressure": _TAINTS,
        "CheckNodePIDPressure": _TAINTS,
        "MatchInterPodAffinity": "InterPodAffinity",
        "EvenPodsSpread": _SPREAD,
        "CheckNodeLabelPresence": _LABEL,
        "LabelsPresence": _LABEL,
        "CheckServiceAffinity": _SERVICE,
        # priorities
        "EqualPriority": "nothing, as nodes that no plugin scores are equal",
        "LeastRequestedPriority": "NodeResourcesFit with scoringStrategy LeastAllocated",
        "MostRequestedPriority": "NodeResourcesFit with scoringStrategy MostAllocated",
        "RequestedToCapacityRatioPriority": (
            "NodeResourcesFit with scoringStrategy RequestedToCapacityRatio"
        ),
        "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
        "SelectorSpreadPriority": _SERVICE_SPREAD,
        "ServiceSpreadingPriority": _SERVICE_SPREAD,
        "ServiceAntiAffinity": _SPREAD,
        "ServiceAntiAffinityPriority": _SPREAD,
        "InterPodAffinityPriority": "InterPodAffinity",
        "NodeAffinityPriority": _AFFINITY,
        "NodeLabelPriority": _LABEL,
        "NodePreferAvoidPodsPriority": "TaintToleration with a taint on the node",
        "TaintTolerationPriority": "TaintToleration",
        "ImageLocalityPriority": "ImageLocality",
        "ResourceLimitsPriority": _FIT,
        "EvenPodsSpreadPriority": _SPREAD,
        # plugins
        "SelectorSpread": _SERVICE_SPREAD,
        "DefaultPodTopologySpread": _SERVICE_SPREAD,
        "NodeResourcesLeastAllocated": "NodeResourcesFit with scoringStrategy LeastAllocated",
        "NodeResourcesMostAllocated": "NodeResourcesFit with scoringStrategy MostAllocated",
        "RequestedToCapacityRatio": (
            "NodeResourcesFit with scoringStrategy RequestedToCapacityRatio"
        ),
        "NodeResourceLimits": _FIT,
        "NodeLabel": _LABEL,
        "ServiceAffinity": _SERVICE,
        "NodePreferAvoidPods": "TaintToleration with a taint on the node",
        "AzureDiskLimits": _LIMITS,
        "CinderLimits": _LIMITS,
        "EBSLimits": _LIMITS,
        "GCEPDLimits": _LIMITS,
    }
)

# These are refused even where other unknown names pass, in pluginConfig.
REFUSED_IN_PLUGIN_CONFIG = frozenset(
    {"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits", "NodeResourcesFitArgs"}
)

LEGACY_FIELDS = MappingProxyType(
    {
        "algorithmSource": "removed: use profiles",
        "hardPodAffinitySymmetricWeight": (
            "moved: args.hardPodAffinityWeight of InterPodAffinity in pluginConfig"
        ),
        "bindTimeoutSeconds": "moved: args.bindTimeoutSeconds of VolumeBinding in pluginConfig",
        "disablePreemption": "moved: disable DefaultPreemption in plugins.postFilter",
        "healthzBindAddress": "removed: a flag of the command sets the port",
        "metricsBindAddress": "removed: a flag of the command sets the port",
        "unreserve": "moved: reserve stands for both",
    }
)
