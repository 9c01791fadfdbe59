"""The plugins of kube-scheduler v1.37: points, arguments, and the plugins enabled by default.

And some of scheduler-plugins, and FairShare and Backfill of bayplan, which are off by default.

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
    """

    name: str
    points: frozenset[Point]
    args_model: type | None = None
    gate: str = ""


def _known(
    name: str, *points: Point, args_model: type | None = None, gate: str = ""
) -> KnownPlugin:
    return KnownPlugin(name, frozenset(points), args_model, gate)


_FILTERS = (Point.PRE_FILTER, Point.FILTER)
_SCORES = (Point.PRE_SCORE, Point.SCORE)

IN_TREE = {
    plugin.name: plugin
    for plugin in (
        _known("SchedulingGates", Point.PRE_ENQUEUE),
        _known("PrioritySort", Point.QUEUE_SORT),
        _known("NodeName", *_FILTERS),
        _known("NodeUnschedulable", *_FILTERS),
        _known("TaintToleration", *_FILTERS, *_SCORES),
        _known("NodeAffinity", *_FILTERS, *_SCORES, args_model=args.NodeAffinityArgs),
        _known("NodePorts", *_FILTERS),
        _known(
            "NodeResourcesFit",
            *_FILTERS,
            *_SCORES,
            Point.PLACEMENT_SCORE,
            args_model=args.NodeResourcesFitArgs,
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
        _known("PodTopologySpread", *_FILTERS, *_SCORES, args_model=args.PodTopologySpreadArgs),
        _known("InterPodAffinity", *_FILTERS, *_SCORES, args_model=args.InterPodAffinityArgs),
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
        ),
        _known("ImageLocality", Point.SCORE),
        _known("DefaultBinder", Point.BIND),
        _known("NodeDeclaredFeatures", *_FILTERS),
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
            Point.PRE_FILTER,
            Point.POST_FILTER,
            Point.POD_GROUP_POST_FILTER,
            args_model=args.FairShareArgs,
        ),
        _known("Backfill", *_FILTERS, Point.POD_GROUP_POST_FILTER, args_model=args.BackfillArgs),
        _known(
            "CapacityScheduling",
            Point.PRE_ENQUEUE,
            Point.PRE_FILTER,
            Point.POST_FILTER,
            Point.POD_GROUP_POST_FILTER,
            Point.RESERVE,
        ),
        _known("QOSSort", Point.QUEUE_SORT),
        _known(
            "PreemptionToleration",
            Point.PRE_ENQUEUE,
            Point.POST_FILTER,
            args_model=args.PreemptionTolerationArgs,
        ),
        _known(
            "LowRiskOverCommitment",
            Point.PRE_SCORE,
            Point.SCORE,
            args_model=args.LowRiskOverCommitmentArgs,
        ),
        _known("GangScheduling", Point.PRE_ENQUEUE, Point.PERMIT, gate=GENERIC_WORKLOAD),
        _known("TopologyPlacementGenerator", Point.PLACEMENT_GENERATE, gate=TOPOLOGY_AWARE),
        _known("PodGroupPodsCount", Point.PLACEMENT_SCORE, gate=TOPOLOGY_AWARE),
    )
}

FAIR_SHARE, CAPACITY_SCHEDULING, BACKFILL = "FairShare", "CapacityScheduling", "Backfill"
PREEMPTING = frozenset({"DefaultPreemption", CAPACITY_SCHEDULING, "PreemptionToleration"})
"""The plugins that evict Pods in PostFilter whoever is asked before them; a profile has one."""

_DEFAULT_PLUGINS = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeName", 0),
    ("NodeUnschedulable", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)

_GATED_PLUGINS: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = (
    (GENERIC_WORKLOAD, (("GangScheduling", 0),)),
    (TOPOLOGY_AWARE, (("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1))),
)


def default_plugins(gates: FeatureGates) -> tuple[tuple[str, int], ...]:
    """(name, weight) of the default multiPoint set in its order; 0 where no weight is given."""
    gated = [plugin for gate, plugins in _GATED_PLUGINS if gates.on(gate) for plugin in plugins]
    return (*_DEFAULT_PLUGINS, *gated)
