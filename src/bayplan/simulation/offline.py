"""Offline: the scheduler's core with a file instead of the API server.

`bayplan.app.assembly` builds the same parts as for a real cluster. Nothing is written: events are
dropped, plugins get no writer, and ties go to the first node by name.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core, Ports, build
from bayplan.app.follow import NoEvents
from bayplan.cache.node_load import NodeLoads, of_node_metrics
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Replaced
from bayplan.simulation.cluster import LoadedCluster
from bayplan.simulation.file_kinds import NODE_METRICS
from bayplan.simulation.name_order import NameOrder


def offline_core(
    cluster: LoadedCluster,
    config: EffectiveConfig,
    registry: Registry,
    at: float | None = None,
) -> Core:
    """A core whose cache and queue hold ``cluster``.

    Time stands still in it, at ``at`` seconds since the epoch, or now. All nodes are looked at,
    whatever percentageOfNodesToScore says, and extenders are not asked: there may be none where the
    file is judged.

    Raises:
        ConfigError: see `bayplan.app.assembly.Core`.
    """
    if config.settings.extenders:
        cluster.notes.add("the extenders of the configuration are not asked")
    all_nodes = [replace(profile, percentage_of_nodes_to_score=100) for profile in config.profiles]
    config = replace(config, profiles=tuple(all_nodes))
    now = time.time() if at is None else at
    ports = Ports(
        events=NoEvents(),
        tie_break=NameOrder(),
        exhaustive=True,
        clock=lambda: now,
        now=lambda: now,
    )
    core = build(config, registry, ports)
    for kind, objects in cluster.objects.items():
        core.world.handlers.apply(Replaced(kind, objects))
    if NODE_METRICS in cluster.objects:
        _write_load(cluster, core)
    return core


def _write_load(cluster: LoadedCluster, core: Core) -> None:
    """Every source says what the NodeMetrics do; the newest of them is of this moment."""
    readings, nodes = of_node_metrics(cluster.objects[NODE_METRICS]), core.world.cache.nodes
    if not readings.names:
        cluster.notes.add("there are no NodeMetrics: the load of nodes is not known")
    now = float(np.nan_to_num(readings.times).max(initial=0))
    notes: dict[str, None] = {}
    for source in core.profiles.load_sources():
        written = nodes.column(NodeLoads).write(source, readings, nodes, now)
        for fault, names in written.examples.items():
            notes[f"NodeMetrics of {', '.join(names)}: {fault}, so the load is not known"] = None
    for note in notes:
        cluster.notes.add(note)


def judged(cluster: LoadedCluster, core: Core) -> list[Pod]:
    """The pending Pods that one of the profiles is responsible for; the others are noted."""
    pods = []
    for pod in cluster.pending:
        if pod.spec.scheduler_name in core.profiles:
            pods.append(pod)
        else:
            text = f"Pod {pod.key} is not judged: there is no profile {pod.spec.scheduler_name}"
            cluster.notes.add(text)
            cluster.notes.left_out += 1
    return pods
