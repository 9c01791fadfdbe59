"""The plugins of kube-scheduler v1.37: points, arguments, and the plugins enabled by default.

And some of scheduler-plugins and some of bayplan's own, which are off by default.

Only names: what bayplan has of them is the framework's to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.config import args
from bayplan.config.feature_gates import GENERIC_WORKLOAD, TOPOLOGY_AWARE, FeatureGates
from bayplan.config.points import Point


@dataclass(frozen=True, slots=True)
class KnownPlugin:
    """A plugin that a configuration may name.

    Attributes:
        name: as configurations spell it.
        points: the extension points that it implements, see `points.EXTENSION_POINTS`.
        args_model: the pydantic model or dataclass of its arguments; None when it takes none.
        gate: the feature gate without which a configuration that enables it is refused; or "".
        weight: in the default set; 0 where none is given.
        unless_given: its weight where a configuration gives none.
    """

    name: str
    points: frozenset[Point]
    args_model: type | None = None
    gate: str = ""
    weight: int = 0
    unless_given: int = 1


def _known(
    name: str,
    *points: Point,
    args_model: type | None = None,
    gate: str = "",
    weight: int = 0,
    unless_given: int = 1,
) -> KnownPlugin:
    return KnownPlugin(name, frozenset(points), args_model, gate, weight, unless_given)


_FILTERS = (Point.PRE_FILTER, Point.FILTER)
_SCORES = (Point.PRE_SCORE, Point.SCORE)

_DEFAULT = (
    _known("SchedulingGates", Point.PRE_ENQUEUE),
    _known("PrioritySort", Point.QUEUE_SORT),
    _known("NodeName", *_FILTERS),
    _known("NodeUnschedulable", *_FILTERS),
    _known("TaintToleration", *_FILTERS, *_SCORES, weight=3),
    _known("NodeAffinity", *_FILTERS, *_SCORES, args_model=args.NodeAffinityArgs, weight=2),
    _known("NodePorts", *_FILTERS),
    _known(
        "NodeResourcesFit",
        *_FILTERS,
        *_SCORES,
        Point.PLACEMENT_SCORE,
        args_model=args.NodeResourcesFitArgs,
        weight=1,
    ),
    _known("VolumeRestrictions", *_FILTERS),
    _known("NodeVolumeLimits", *_FILTERS),
    _known(
        "VolumeBinding",
        *_FILTERS,
        *_SCORES,
        Point.RESERVE,
        Point.PRE_BIND,
        args_model=args.VolumeBindingArgs,
    ),
    _known("VolumeZone", *_FILTERS),
    _known(
        "PodTopologySpread",
        *_FILTERS,
        *_SCORES,
        args_model=args.PodTopologySpreadArgs,
        weight=2,
    ),
    _known("InterPodAffinity", *_FILTERS, *_SCORES, args_model=args.InterPodAffinityArgs, weight=2),
    _known(
        "DynamicResources",
        Point.PRE_ENQUEUE,
        *_FILTERS,
        Point.POST_FILTER,
        Point.SCORE,
        Point.RESERVE,
        Point.PRE_BIND,
        Point.POD_GROUP_POST_FILTER,
        args_model=args.DynamicResourcesArgs,
        weight=2,
    ),
    _known(
        "DefaultPreemption",
        Point.PRE_ENQUEUE,
        Point.POST_FILTER,
        Point.POD_GROUP_POST_FILTER,
        args_model=args.DefaultPreemptionArgs,
    ),
    _known(
        "NodeResourcesBalancedAllocation",
        *_SCORES,
        args_model=args.NodeResourcesBalancedAllocationArgs,
        weight=1,
    ),
    _known("ImageLocality", Point.SCORE, weight=1),
    _known("DefaultBinder", Point.BIND),
    _known("NodeDeclaredFeatures", *_FILTERS),
    _known("GangScheduling", Point.PRE_ENQUEUE, Point.PERMIT, gate=GENERIC_WORKLOAD),
    _known("TopologyPlacementGenerator", Point.PLACEMENT_GENERATE, gate=TOPOLOGY_AWARE),
    _known("PodGroupPodsCount", Point.PLACEMENT_SCORE, gate=TOPOLOGY_AWARE, weight=1),
)
"""Those of the default multiPoint set, in its order; one with a gate only where that is on."""
KUBERNETES_DEFAULT = frozenset(plugin.name for plugin in _DEFAULT)
_OPTIONAL = (
    _known(
        "Coscheduling",
        Point.PRE_ENQUEUE,
        Point.QUEUE_SORT,
        Point.PRE_FILTER,
        Point.POST_FILTER,
        Point.RESERVE,
        Point.PERMIT,
        args_model=args.CoschedulingArgs,
    ),
    _known(
        "FairShare",
        Point.PRE_ENQUEUE,
        *_FILTERS,
        Point.POST_FILTER,
        Point.SCORE,
        Point.POD_GROUP_POST_FILTER,
        args_model=args.FairShareArgs,
        unless_given=100,
    ),
    _known(
        "Backfill",
        *_FILTERS,
        Point.POD_GROUP_POST_FILTER,
        args_model=args.BackfillArgs,
    ),
    _known(
        "CapacityScheduling",
        Point.PRE_ENQUEUE,
        Point.PRE_FILTER,
        Point.POST_FILTER,
        Point.POD_GROUP_POST_FILTER,
        Point.RESERVE,
    ),
    _known("QOSSort", Point.QUEUE_SORT),
    _known("TopologicalSort", Point.QUEUE_SORT, args_model=args.TopologicalSortArgs),
    _known(
        "PreemptionToleration",
        Point.PRE_ENQUEUE,
        Point.POST_FILTER,
        args_model=args.DefaultPreemptionArgs,
    ),
    _known(
        "LowRiskOverCommitment",
        Point.PRE_SCORE,
        Point.SCORE,
        args_model=args.LowRiskOverCommitmentArgs,
    ),
    _known(
        "BlastRadius",
        Point.PRE_FILTER,
        Point.FILTER,
        Point.PRE_SCORE,
        Point.SCORE,
        args_model=args.BlastRadiusArgs,
    ),
    _known("DomainCost", *_FILTERS, Point.SCORE, args_model=args.DomainCostArgs),
    _known("NetworkOverhead", *_FILTERS, Point.SCORE, args_model=args.NetworkOverheadArgs),
    _known("LeastFragmentation", Point.SCORE, args_model=args.LeastFragmentationArgs),
    _known("ReservedFor", Point.FILTER, Point.SCORE, args_model=args.ReservedForArgs),
    _known("TargetLoadPacking", Point.SCORE, args_model=args.TargetLoadPackingArgs),
    _known(
        "LoadVariationRiskBalancing",
        Point.SCORE,
        args_model=args.LoadVariationRiskBalancingArgs,
    ),
    _known("Peaks", Point.SCORE, args_model=args.PeaksArgs),
    _known("NodeMetadata", Point.SCORE, args_model=args.NodeMetadataArgs),
    _known("PodState", Point.SCORE),
    _known("NodeResourcesAllocatable", Point.SCORE, args_model=args.NodeResourcesAllocatableArgs),
    _known(
        "NodeResourceTopologyMatch",
        *_FILTERS,
        Point.SCORE,
        Point.RESERVE,
        Point.POST_BIND,
        args_model=args.NodeResourceTopologyMatchArgs,
    ),
)
IN_TREE = {plugin.name: plugin for plugin in (*_DEFAULT, *_OPTIONAL)}

FAIR_SHARE, CAPACITY_SCHEDULING, BACKFILL = "FairShare", "CapacityScheduling", "Backfill"
PREEMPTING = frozenset({"DefaultPreemption", CAPACITY_SCHEDULING, "PreemptionToleration"})
"""The plugins that evict Pods in PostFilter whoever is asked before them; a profile has one."""


def default_plugins(gates: FeatureGates) -> tuple[tuple[str, int], ...]:
    """(name, weight) of the default multiPoint set in its order; 0 where no weight is given."""
    return tuple(
        (plugin.name, plugin.weight)
        for plugin in _DEFAULT
        if not plugin.gate or gates.on(plugin.gate)
    )
