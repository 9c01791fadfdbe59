"""The plugins of kube-scheduler v1.36: where they run, their arguments, which are on by default.

Only names: what bayplan has of them is the framework's to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.config import args


@dataclass(frozen=True, slots=True)
class KnownPlugin:
    """A plugin that a configuration may name.

    Attributes:
        name: as configurations spell it.
        points: the extension points that it implements, as in `types.EXTENSION_POINTS`.
        args_model: the pydantic model or dataclass of its arguments; None when it takes none.
    """

    name: str
    points: frozenset[str]
    args_model: type | None = None


def _known(name: str, points: str, args_model: type | None = None) -> KnownPlugin:
    return KnownPlugin(name, frozenset(points.split()), args_model)


_FILTERS_AND_SCORES = "preFilter filter preScore score"

IN_TREE = {
    plugin.name: plugin
    for plugin in (
        _known("SchedulingGates", "preEnqueue"),
        _known("PrioritySort", "queueSort"),
        _known("NodeUnschedulable", "filter"),
        _known("NodeName", "filter"),
        _known("TaintToleration", "filter preScore score"),
        _known("NodeAffinity", _FILTERS_AND_SCORES, args.NodeAffinityArgs),
        _known("NodePorts", "preFilter filter"),
        _known(
            "NodeResourcesFit", f"{_FILTERS_AND_SCORES} placementScore", args.NodeResourcesFitArgs
        ),
        _known("VolumeRestrictions", "preFilter filter"),
        _known("NodeVolumeLimits", "preFilter filter"),
        _known("VolumeBinding", f"{_FILTERS_AND_SCORES} reserve preBind", args.VolumeBindingArgs),
        _known("VolumeZone", "preFilter filter"),
        _known("PodTopologySpread", _FILTERS_AND_SCORES, args.PodTopologySpreadArgs),
        _known("InterPodAffinity", _FILTERS_AND_SCORES, args.InterPodAffinityArgs),
        _known(
            "DynamicResources",
            "preEnqueue preFilter filter postFilter score reserve preBind",
            args.DynamicResourcesArgs,
        ),
        _known("DefaultPreemption", "preEnqueue postFilter", args.DefaultPreemptionArgs),
        _known(
            "NodeResourcesBalancedAllocation",
            "preScore score",
            args.NodeResourcesBalancedAllocationArgs,
        ),
        _known("ImageLocality", "score"),
        _known("DefaultBinder", "bind"),
        _known("NodeDeclaredFeatures", "preFilter filter"),
        _known("GangScheduling", "preEnqueue permit"),
        _known("TopologyPlacementGenerator", "placementGenerate"),
        _known("PodGroupPodsCount", "placementScore"),
    )
}

# (name, weight) of the default multiPoint set in its order; 0 where no weight is given.
DEFAULT_PLUGINS = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
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
