"""Goals: what moves are for, and the nodes and Pods that a user's words mean."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray
from bayplan.cache.pod_groups import Group
from bayplan.explain.explanation import gate_status
from bayplan.improve.deciders import Deciders

GROUP_PREFIX = "podgroup/"


class GoalError(Exception):
    """There is no such goal; the text says why."""


class Gain(Protocol):
    """A measure that is to fall.

    Attributes:
        needed: by how much, at least.
    """

    needed: float

    def concerns(self, pod: Pod) -> bool:
        """Whether moving this running Pod may let the measure fall."""

    def kind(self, pod: Pod) -> Hashable:
        """The same for Pods that add as much on each row."""

    def added(self, pod: Pod) -> FloatArray:
        """(n,) what ``pod``, which counts nowhere, adds to the measure on each row."""


class Goal(NamedTuple):
    """What is to hold after the moves.

    Attributes:
        title: in the words of the user.
        pods: wait, and are to fit; none where nodes are to be empty.
        group: which ``pods`` are; None for one Pod alone.
        empty: the rows of nodes that no Pod is to be on but those that belong to their node.
        gain: a measure that is to fall.
        mends: whether Pods may move that BlastRadius keeps from being evicted.
    """

    title: str
    pods: tuple[Pod, ...] = ()
    group: Group | None = None
    empty: frozenset[int] = frozenset()
    gain: Gain | None = None
    mends: bool = False


def fitting(core: Deciders, subject: str, namespace: str) -> Goal:
    """A Pod or a group that waits fits.

    Args:
        core: the cluster.
        subject: ``NAME`` or ``pod/NAME`` of a Pod, ``podgroup/NAME`` of a group; ``NAME`` may be
            ``NAMESPACE/NAME``.
        namespace: of a name without one.

    Raises:
        GoalError: there is none, or it waits for something else than room.
    """
    if subject.startswith(GROUP_PREFIX):
        return _group(core, _key(subject.removeprefix(GROUP_PREFIX), namespace))
    key = _key(subject.removeprefix("pod/"), namespace)
    pod = core.world.handlers.pods.get(key)
    if pod is None:
        raise GoalError(f"there is no Pod {key}")
    if pod.node_name:
        raise GoalError(f"Pod {key} has a node already: {pod.node_name}")
    if pod.deleted is not None:
        raise GoalError(f"Pod {key} is being deleted")
    framework = core.profiles.get(pod.spec.scheduler_name)
    if framework is None:
        raise GoalError(f"Pod {key}: no profile is called {pod.spec.scheduler_name}")
    if (gate := gate_status(framework, pod)) is not None:
        raise GoalError(f"Pod {key} is held back by {gate.plugin}: {gate.message}")
    entry = core.world.queue.groups.entry_of_pod(pod)
    if entry is not None and pod.uid in entry.members:
        raise GoalError(f"Pod {key} waits with its group: ask for {GROUP_PREFIX}{entry.key}")
    return Goal(f"Pod {key} fits", (pod,))


def _group(core: Deciders, key: str) -> Goal:
    entry = next((one for one in core.world.queue.groups if one.key == key), None)
    if entry is None:
        raise GoalError(f"no group {key} waits")
    missing, group = entry.gathering(), entry.group
    if missing is not None or group is None:
        raise GoalError(f"group {key}: {'there is none' if missing is None else missing.message}")
    pods = tuple(entry.pods)
    return Goal(f"group {key} ({len(pods)} Pods) fits", pods, group)


def empty(core: Deciders, where: str) -> Goal:
    """A node, or all nodes with a label, take no Pods any more.

    Args:
        core: the cluster.
        where: the name of a node, or ``LABEL=VALUE``.

    Raises:
        GoalError: there is no such node.
    """
    nodes = core.world.cache.nodes
    label, equals, value = where.partition("=")
    if not equals:
        row = nodes.row(where)
        if row is None:
            raise GoalError(f"there is no node {where}")
        return Goal(f"node {where} is empty", empty=frozenset({row}))
    rows = [
        row
        for row, node in enumerate(nodes.nodes)
        if node is not None and node.labels.get(label) == value
    ]
    if not rows:
        raise GoalError(f"no node has the label {where}")
    nodes_are = "1 node is" if len(rows) == 1 else f"{len(rows)} nodes are"
    return Goal(f"{nodes_are} empty: {where}", empty=frozenset(rows))


def _key(name: str, namespace: str) -> str:
    return name if "/" in name else f"{namespace}/{name}"
