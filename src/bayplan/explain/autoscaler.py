"""Autoscaler: why the cluster-autoscaler or Karpenter adds no node for a Pod that waits.

The first of these causes that holds is named, of docs/autoscalers.md:

1. The Pod does not say that it lacks room: gated, gathering, at a limit, or not tried yet.
2. It is nominated to a node, where Pods leave for it.
3. Its priority is below that for which nodes are added.
4. Some nodes fail only by filters that autoscalers do not know.
5. No node of any pool would fit, even if it were empty.
9. It waits for a ProvisioningRequest, which asks for nodes for its whole group.

What autoscalers themselves say (6 to 8) is read by `bayplan.cli.autoscaler_events`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.api import quantity
from bayplan.api.meta import Condition
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.scheduling import CONSUMES_REQUEST
from bayplan.attempt.outcome import Reason
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.node_table.column import Numbers
from bayplan.cache.requests import pod_requests
from bayplan.config.intree import KUBERNETES_DEFAULT
from bayplan.engine.faults import AttemptFault
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.world import World

Answer = dict[str, Any]

EXPENDABLE = -10
"""cluster-autoscaler adds no node for Pods of a lower priority."""
MOST_POOLS = 50
_LIMITS = ("CapacityScheduling", "FairShare")
"""They reject for limits, with another reason than Unschedulable."""
_HOSTNAME = "kubernetes.io/hostname"


def autoscaler(world: World, framework: Framework, pod: Pod, reason: str, *, names: bool) -> Answer:
    """The first cause that holds: ``cause`` (1 to 5, 9), ``text``, ``plugins``; empty for none.

    Args:
        world: what is known.
        framework: the Pod's profile.
        pod: waits.
        reason: of the Pod's condition PodScheduled; "" where it has none.
        names: whether nodes may be named.
    """
    if reason != Reason.UNSCHEDULABLE:
        why = f"the condition PodScheduled has the reason {reason}" if reason else "it has none yet"
        return _cause(1, f"it does not say Unschedulable, for which nodes are added: {why}")
    nominated = world.nominator.nominated_node(pod.uid) or pod.status.nominated_node_name
    if nominated:
        where = nominated if names else "a node"
        return _cause(2, f"it is nominated to {where}, where Pods leave for it")
    if pod.priority < EXPENDABLE:
        return _cause(3, f"its priority {pod.priority} is below {EXPENDABLE}: it is expendable")
    try:
        told = _blind(framework, pod, names=names) or _too_large(world, framework, pod)
    except AttemptFault:  # it is logged
        return {}
    return told or _by_request(pod)


def unknown_filters(plugins: ProfilePlugins) -> frozenset[str]:
    """The plugins that may reject nodes and are not among kube-scheduler's default ones."""
    rejecting = {plugin.name for plugin in (*plugins.pre_filter, *plugins.filter)}
    return frozenset(rejecting - KUBERNETES_DEFAULT).difference(_LIMITS)


def condition_reason(pod: Pod) -> str:
    """The reason of the condition PodScheduled; "" where there is none, or it is true."""
    conditions: tuple[Condition, ...] = pod.status.conditions
    said = (c.reason for c in conditions if c.type == "PodScheduled" and c.status == "False")
    return next(said, "")


def _cause(number: int, text: str, **more: Any) -> Answer:
    return {"cause": number, "text": text, **more}


def _blind(framework: Framework, pod: Pod, *, names: bool) -> Answer:
    """Nodes rejected only by filters unknown to autoscalers."""
    unknown = unknown_filters(framework.plugins)
    if not unknown:
        return {}
    state = CycleState(timed=False)
    diagnosis, rejection = framework.search.diagnose(state, pod, with_nominated=False)
    if rejection is not None:
        if rejection.plugin not in unknown:
            return {}
        text = f"it is rejected by {rejection.plugin}, which autoscalers do not know"
        return _cause(4, text, plugins=[rejection.plugin])
    rows = framework.search.fitting_without(diagnosis, pod, unknown)
    if not rows.size:
        return {}
    rejecting = {diagnosis.status(int(row)).plugin for row in rows} & unknown
    plugins = sorted(rejecting or unknown)
    node = diagnosis.nodes.names[int(rows[0])] if names else "one of them"
    text = (
        f"{len(rows)} nodes are rejected only by {', '.join(plugins)}, which autoscalers do not "
        f"know: they believe that it fits on {node}"
    )
    return _cause(4, text, plugins=plugins, nodes=len(rows))


def _too_large(world: World, framework: Framework, pod: Pod) -> Answer:
    """No node of any pool would fit if only its DaemonSets' Pods were there."""
    nodes = world.cache.nodes
    pools, there = nodes.ensure_column(NodePools).values, nodes.exists.nonzero()[0]
    rows = there[np.unique(pools[there], return_index=True)[1]].tolist()
    if not 0 < len(rows) <= MOST_POOLS:
        return {}
    with world.cache.trial():
        for row in rows:
            for running in list(nodes.pods[row].values()):
                if running.controller[0].rpartition("/")[2] != "DaemonSet":
                    world.cache.remove(running.uid)
        diagnosis, rejection = framework.search.diagnose(
            CycleState(timed=False), pod, with_nominated=False
        )
        if rejection is not None or diagnosis.fits[rows].any():
            return {}
    return _cause(5, f"no node of any pool could hold it, even an empty one{_largest(nodes, pod)}")


def _by_request(pod: Pod) -> Answer:
    request = pod.annotations.get(CONSUMES_REQUEST)
    if not request:
        return {}
    text = f"it waits for the ProvisioningRequest {request}: no node is added for it alone"
    return _cause(9, text, request=request)


class NodePools(Numbers[np.int64]):
    """A number for each node that is equal for nodes with the same labels, taints and capacity.

    There from the first question on: whoever asks next need not look at all nodes.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.int64)

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        """See `bayplan.cache.node_table.column.NodeColumn`."""
        labels = frozenset(item for item in node.labels.items() if item[0] != _HOSTNAME)
        pool = labels, node.spec.taints, frozenset(node.status.allocatable.items())
        self.values[row] = hash(pool)


def _largest(nodes: LiveNodeTable, pod: Pod) -> str:
    """A resource of which no node has as much as the Pod requests."""
    for name, amount in pod_requests(pod).amounts.items():
        most = int(np.max(nodes.allocatable(name), initial=0))
        if amount > most:
            needs, has = quantity.shown_apart(name, amount, most)
            return f": it needs {needs} {name}, the largest has {has}"
    return ""
