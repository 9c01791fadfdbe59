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
from bayplan.attempt.slice_homes import Home, in_slices
from bayplan.cache.group_policy import Collects
from bayplan.cache.group_topology import GroupTopology
from bayplan.cache.kueue_topology import asks
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import SubGroup, sub_group_of
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.framework.interface import UNBOUNDED


def of_members(framework: Framework, nodes: NodeTable, pod: Pod) -> Iterator[Home]:
    """For a Pod whose group has begun: where to look for a node, one after the other.

    The domains that most Pods of its group, and most of its sub-group, are in, by their levels; and
    of these, where its slice is.
    """
    key = framework.groups.key_of(pod) if framework.services.group_sources else ""
    group = _group(framework, key, pod) if key else None
    if group is None:
        yield Home(None)
        return
    path = group.path(sub_group_of(pod.shape))
    choices = [
        list(_of_part(nodes, part.topology, framework.groups.nodes_of(key, part)))
        for part in path
        if part.topology is not None
    ]
    for masks in product(*choices):
        limits = [mask for mask in masks if mask is not None]
        home = Home(np.logical_and.reduce(limits) if limits else None)
        yield in_slices_of(framework, nodes, pod, key, path[-1], home)


def in_slices_of(
    framework: Framework, nodes: NodeTable, pod: Pod, key: str, part: SubGroup, home: Home
) -> Home:
    """Where of ``home`` the slices of a part of the group called ``key`` let a Pod go."""
    members = framework.groups.pods_of(key, part) if part.slices else ()
    if not members:
        return home
    return in_slices(nodes, part.slices, pod, members, copies_of(framework, nodes, pod), home)


def copies_of(framework: Framework, nodes: NodeTable, pod: Pod) -> IntArray:
    """``(n,)`` how many Pods like this one each node takes, at most."""
    try:
        return framework.search.capacity.of(pod).copies
    except AttemptFault:
        # The attempt meets the fault as well.
        return np.where(nodes.exists, UNBOUNDED, 0)


def _group(framework: Framework, key: str, pod: Pod) -> Group | None:
    """The started group of ``pod``, from the plugin with the hierarchy of the group's levels."""
    for source in framework.services.group_sources:
        if source.policy.collects is not Collects.UNTIL_BEGUN:
            continue
        group = source.find(key)
        if group is not None:
            pods = (pod, *framework.groups.pods_of(key, group)) if asks(pod) else ()
            return source.with_asks_of(group, pods) if pods else group
    return None


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
