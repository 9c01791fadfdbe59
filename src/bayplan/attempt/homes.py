"""Homes: the topology domains in which a group has begun; later Pods go there, too.

Each level of a group, and of the sub-groups that the Pod is in, has one: the domain that most of
the Pods with nodes are in (`bayplan.cache.sub_groups.GroupTopology`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.group_policy import Collects
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import GroupTopology, sub_group_of
from bayplan.engine.runtime import Framework


def of_members(framework: Framework, nodes: NodeTable, pod: Pod) -> Iterator[BoolArray | None]:
    """For a Pod whose group has begun: the rows to look at, one after the other; None for all.

    The domains that most Pods of its group, and most of its sub-group, are in, by their levels.
    """
    key = framework.groups.key_of(pod) if framework.services.group_sources else ""
    group = _group(framework, key) if key else None
    if group is None:
        yield None
        return
    choices = [
        list(_of_part(nodes, part.topology, framework.groups.nodes_of(key, part)))
        for part in group.path(sub_group_of(pod.shape))
        if part.topology is not None
    ]
    for masks in product(*choices):
        limits = [mask for mask in masks if mask is not None]
        yield np.logical_and.reduce(limits) if limits else None


def _group(framework: Framework, key: str) -> Group | None:
    """The started group, from the plugin with the hierarchy of the group's levels."""
    sources = framework.services.group_sources
    groups = (s.find(key) for s in sources if s.policy.collects is Collects.UNTIL_BEGUN)
    return next((group for group in groups if group is not None), None)


def _of_part(
    nodes: NodeTable, topology: GroupTopology, members: Mapping[str, int]
) -> Iterator[BoolArray | None]:
    """The domains of most of ``members``, Pods by node; None for all nodes."""
    any_domain = False
    for level in topology.steps:
        mask = _of_most(nodes, level, members) if level else None
        if mask is not None or not level:
            any_domain = True
            yield mask
    if not any_domain:
        yield None


def home(nodes: NodeTable, level: str, members: Mapping[str, int]) -> int | None:
    """The code of the domain that has most of ``members``, Pods by node; None for none."""
    codes = nodes.label(level).codes
    counts: Counter[int] = Counter()
    for name, number in members.items():
        row = nodes.row(name)
        if row is not None and codes[row] >= 0:
            counts[codes.item(row)] += number
    return min(counts, key=lambda code: (-counts[code], code)) if counts else None


def _of_most(nodes: NodeTable, level: str, members: Mapping[str, int]) -> BoolArray | None:
    """The domain that has most of ``members``, Pods by node; None where none has a domain."""
    code = home(nodes, level, members)
    if code is None:
        return None
    most: BoolArray = nodes.label(level).codes == code
    return most
