"""Topologies: the believed object of each node, and what zones have left.

An object is late: an exporter writes it seconds after a Pod has started. Until then the Pod is
reserved for in *every* zone, as nobody knows which one the kubelet will choose. So two facts count
for each node: the object that is believed, and the Pods that it shows. All else follows from these
and from the Pods on the node, and is computed again when one of them changes::

    available = shown by the object
                - requests of our Pods that it does not show          (in every zone)
                + resources of Pods that it shows and that are gone   (where the zone is known)

A Pod of another scheduler that the object does not show may be in any zone with anything, so the
object cannot be believed at all.

A newer object takes the place of an older one when

- it has a fingerprint, and that is the fingerprint of Pods on the node: of those that run, or of
  those that the kubelet has admitted. These are the Pods that it shows;
- or there is no Pod on the node that the older object does not show;
- or it has no fingerprint. Then it shows Pods of other schedulers, but not ours: what ours take
  stays reserved until they are gone.

The first object of a node without a fingerprint shows all Pods; with one that is not right, none.
Without the cache every object shows all Pods.

There is nothing to do in Reserve: the node table has a Pod from the moment when its node is chosen,
in trials and what-if tables as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import WeakValueDictionary

from bayplan.api.kinds import NODE_RESOURCE_TOPOLOGY
from bayplan.api.meta import ObjectFault, ObjectReference
from bayplan.api.numa import NodeResourceTopology
from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable, NodeInfo, NodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.config.args import NodeResourceTopologyMatchArgs
from bayplan.plugins.node_resource_topology_match.asking import Amounts, asking
from bayplan.plugins.node_resource_topology_match.fingerprint import (
    Container,
    PlacementError,
    fingerprint,
    placement,
)
from bayplan.plugins.node_resource_topology_match.tables import State, ZoneTable
from bayplan.plugins.node_resource_topology_match.zones import NodeZones, node_zones

Pods = Mapping[str, Pod]
"""By uid."""
_NEVER = -1
_EXCLUSIVE = "OnlyExclusiveResources"
_REASON = "InvalidTopology"


class Settings(NamedTuple):
    """What of a plugin's arguments bears on what is believed.

    Attributes:
        over_reserves: whether Pods that the object does not show count.
        foreign: which Pods of other schedulers do: ``All``, ``None``, ``OnlyExclusiveResources``.
        method: of which Pods fingerprints are.
        config_at_once: whether the kubelet's configuration is always taken from the newest object.
        placements: whether zones of Pods are remembered, for preemption.
    """

    over_reserves: bool
    foreign: str
    method: str
    config_at_once: bool
    placements: bool

    @classmethod
    def of(cls, args: NodeResourceTopologyMatchArgs) -> Settings:
        """Those of ``args``."""
        return cls(
            args.over_reserves,
            args.cache.foreign_pods_detect,
            args.cache.resync_method,
            args.cache.resync_scope == "All",
            args.over_reserves and args.preemption_mode == "Enabled",
        )


@dataclass
class Believed:
    """The object of a node that counts.

    Attributes:
        shown: the uids of the Pods that it shows; None for all.
        is_proved: whether its fingerprint has said so.
        places: by uid of a Pod, index of a zone and what the Pod has there for itself alone.
    """

    zones: NodeZones
    shown: frozenset[str] | None
    is_proved: bool = False
    places: dict[str, list[tuple[int, Amounts]]] = field(default_factory=dict)


class Row(NamedTuple):
    """What counts for a node with some Pods on it; see `ZoneTable.write`."""

    zones: NodeZones | None
    stale: bool
    taken: Amounts
    freed: Sequence[tuple[int, Amounts]]


class Profiles:
    """The profiles with the plugin; those with equal settings share `Topologies`."""

    def __init__(self) -> None:
        self.names = Counter[str]()
        self._topologies: WeakValueDictionary[Settings, Topologies] = WeakValueDictionary()

    def topologies(
        self, settings: Settings, nodes: LiveNodeTable, objects: ObjectStore
    ) -> Topologies:
        """The ones for ``settings``; a reload keeps the same ones."""
        found = self._topologies.get(settings)
        if found is None:
            found = self._topologies[settings] = Topologies(settings, self.names, nodes, objects)
        return found


class Topologies:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        faults: what is wrong with objects; another list after each change.
    """

    def __init__(
        self,
        settings: Settings,
        profiles: Counter[str],
        nodes: LiveNodeTable,
        objects: ObjectStore,
    ) -> None:
        self.settings = settings
        self._profiles, self._nodes = profiles, nodes
        self._latest: dict[str, NodeZones] = {}
        self._believed: dict[str, Believed] = {}
        self._table = ZoneTable()
        self._node_position = self._pod_position = _NEVER
        self._where: dict[str, ObjectReference] = {}
        self._faults: dict[str, list[ObjectFault]] = {}
        self.faults: Sequence[ObjectFault] = []
        self._subscription = objects.on_change(NODE_RESOURCE_TOPOLOGY, self._changed)

    # Objects

    def _changed(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> None:
        name = (new or old).name  # type: ignore[union-attr]
        if new is None:
            self._latest.pop(name, None)
            self._set_faults(name, ())
        else:
            zones = node_zones(new)
            if zones == self._latest.get(name):
                return
            self._latest[name] = zones
            where = NODE_RESOURCE_TOPOLOGY.reference(new)
            self._where[name] = where
            self._set_faults(name, zones.faults)
        row = self._nodes.row(name)
        if row is not None:
            self._nodes.touch(row)

    def _set_faults(self, name: str, texts: Sequence[str]) -> None:
        if texts or name in self._faults:
            self._faults[name] = [ObjectFault(self._where[name], _REASON, t) for t in texts]
            if not texts:
                del self._faults[name]
            self.faults = [fault for each in self._faults.values() for fault in each]

    def forget_rows(self) -> None:
        """Compute all rows again: other Pods are foreign now."""
        self._node_position = _NEVER

    # Rows

    def table(self, nodes: NodeTable) -> ZoneTable:
        """The zones of ``nodes``: the live table, or some rows of it with other Pods."""
        live = self._nodes
        self._refresh()
        if nodes is live:
            return self._table
        assert nodes.origin is not None
        table = self._table.take(nodes.origin)
        pods, its = nodes.pods, live.pods
        for row, origin in enumerate(nodes.origin.tolist()):
            if pods[row] is not its[origin]:
                self._write(table, row, nodes.names[row], pods[row])
        return table

    def state(self, node: NodeInfo) -> tuple[State] | None:
        """The state of ``node``; None if other Pods are there than in fact."""
        row, table = node.origin, node.table
        self._refresh()
        if table is not self._nodes and table.pods[node.row] is not self._nodes.pods[row]:
            return None
        return (self._table.states[row],)

    def _refresh(self) -> None:
        nodes = self._nodes
        changed = nodes.node_journal.since(self._node_position)
        follows = self.settings.over_reserves
        moved = nodes.pod_journal.since(self._pod_position) if follows else []
        is_known = changed is not None and moved is not None
        rows = {*(changed or ()), *(moved or ())} if is_known else set(range(len(nodes)))
        if not rows:
            return
        self._node_position = nodes.node_journal.position
        self._pod_position = nodes.pod_journal.position
        self._table.grow(len(nodes), 1)
        for row in rows:
            name, pods = nodes.names[row], nodes.pods[row]
            if name is not None and not nodes.tentative:
                self._believe(name, pods)
            self._write(self._table, row, name, pods)

    def _write(self, table: ZoneTable, row: int, name: str | None, pods: Pods) -> None:
        counts = self.row(name, pods)
        if counts.zones is not None:
            table.grow(len(table), len(counts.zones.ids))
        elif not table.known[row]:
            return
        zones, stale, taken, freed = counts
        table.write(row, zones, stale=stale, taken=taken, freed=freed)

    def row(self, name: str | None, pods: Pods) -> Row:
        """What counts for the node ``name`` if ``pods`` are there."""
        believed = self._believed.get(name or "")
        if believed is None:
            return Row(None, False, {}, ())
        zones = believed.zones
        stale, taken = False, dict[str, int]()
        for pod in self._not_shown(believed, pods):
            if pod.spec.scheduler_name in self._profiles:
                for resource, amount in pod.shape.requests.memo(asking).pod.items():
                    taken[resource] = taken.get(resource, 0) + amount
            else:
                stale |= self._counts(pod, zones)
        freed = [
            each for uid, places in believed.places.items() if uid not in pods for each in places
        ]
        return Row(zones, stale, taken, freed)

    @staticmethod
    def _not_shown(believed: Believed, pods: Pods) -> Iterator[Pod]:
        shown = believed.shown
        return iter(()) if shown is None else (p for u, p in pods.items() if u not in shown)

    def _counts(self, foreign: Pod, zones: NodeZones) -> bool:
        """Whether a Pod of another scheduler makes the object stale."""
        if self.settings.foreign == _EXCLUSIVE:
            return foreign.shape.requests.memo(asking).has_own(zones.available)
        return self.settings.foreign != "None"

    # Belief

    def look(self) -> list[int]:
        """The rows whose object counts from now on, though nothing has come or gone.

        Pods may have started since.
        """
        self._refresh()
        rows = []
        for name, latest in self._latest.items():
            row, believed = self._nodes.row(name), self._believed.get(name)
            if row is None or (believed is not None and self._is_settled(believed, latest, row)):
                continue
            before = believed and (believed.zones, believed.shown)
            self._believe(name, self._nodes.pods[row])
            after = self._believed[name]
            if before != (after.zones, after.shown):
                self._nodes.touch(row)
                rows.append(row)
        return rows

    def _is_settled(self, believed: Believed, latest: NodeZones, row: int) -> bool:
        if believed.zones is not latest:
            return False
        return next(self._not_shown(believed, self._nodes.pods[row]), None) is None

    def stale_nodes(self) -> int:
        """How many nodes have an object that cannot be believed."""
        return int(self._table.stale.sum())

    def _believe(self, name: str, pods: Pods) -> None:
        """Decide on the object of the node, and on the Pods in this object."""
        latest, before = self._latest.get(name), self._believed.get(name)
        if latest is None:
            self._believed.pop(name, None)
        elif not self.settings.over_reserves:
            self._believed[name] = Believed(latest, None)
        elif before is None or not self._is_settled_with(before, latest, pods):
            now = self._next(before, latest, pods)
            if now is not before and self.settings.placements:
                self._remember_places(name, now, pods)
            self._believed[name] = now

    def _is_settled_with(self, before: Believed, latest: NodeZones, pods: Pods) -> bool:
        return before.zones is latest and next(self._not_shown(before, pods), None) is None

    def _next(self, before: Believed | None, latest: NodeZones, pods: Pods) -> Believed:
        shown = self._shown_by(before, latest, pods)
        if shown is not None:
            return Believed(latest, shown, is_proved=True)
        if before is None:
            return Believed(latest, frozenset(() if latest.fingerprint else pods))
        assert before.shown is not None
        if before.zones is latest:
            return before
        unseen = [pod.uid for pod in self._not_shown(before, pods)]
        if not unseen:
            return Believed(latest, before.shown & pods.keys(), places=before.places)
        if not latest.fingerprint:
            foreign = (u for u in unseen if pods[u].spec.scheduler_name not in self._profiles)
            return Believed(latest, before.shown | set(foreign))
        if self.settings.config_at_once and before.zones.config != latest.config:
            before.zones = _with_config(before.zones, latest)
        return before

    def _shown_by(
        self, before: Believed | None, latest: NodeZones, pods: Pods
    ) -> frozenset[str] | None:
        """The Pods with the fingerprint of ``latest``; None if nobody knows."""
        if not latest.fingerprint:
            return None
        method = self.settings.method
        exclusive = method == _EXCLUSIVE or (method == "Autodetect" and latest.exclusive_only)
        running = [p for p in pods.values() if p.status.phase not in ("", "Pending")]
        admitted = [p for p in pods.values() if p.status.start_time is not None]
        is_same = before is not None and before.is_proved and before.zones is latest
        for candidates in (running, admitted):
            uids = frozenset(pod.uid for pod in candidates)
            if is_same and before is not None and before.shown is not None and uids <= before.shown:
                continue
            counted = [
                (pod.namespace, pod.name)
                for pod in candidates
                if not exclusive or pod.shape.requests.memo(asking).has_own(latest.available)
            ]
            if fingerprint(counted) == latest.fingerprint:
                return uids
        return None

    def _remember_places(self, name: str, believed: Believed, pods: Pods) -> None:
        zones = believed.zones
        if not zones.metadata or believed.shown is None or not believed.is_proved:
            return
        own = {
            (pod.namespace, pod.name, _name(pod, index)): (pod.uid, amounts)
            for pod in pods.values()
            if pod.uid in believed.shown
            for asks in (pod.shape.requests.memo(asking),)
            for index in asks.staying
            for amounts in (asks.own(index, zones.available),)
            if amounts
        }
        try:
            places = placement(zones.metadata, zones.vectors, list(own))
            believed.places = _checked(places, own, zones)
        except PlacementError as error:
            self._set_faults(name, (*zones.faults, f"placement: {error}"))


def _name(pod: Pod, index: int) -> str:
    return (*pod.spec.init_containers, *pod.spec.containers)[index].name


def _checked(
    places: Mapping[Container, int],
    own: Mapping[Container, tuple[str, Amounts]],
    zones: NodeZones,
) -> dict[str, list[tuple[int, Amounts]]]:
    """What each Pod has, by uid.

    Raises:
        PlacementError: a zone that is not there, or that would have more than is allocatable.
    """
    result: dict[str, list[tuple[int, Amounts]]] = {}
    sums: list[Counter[str]] = [Counter() for _ in zones.ids]
    for container, id_ in places.items():
        if id_ not in zones.ids:
            raise PlacementError(f"there is no zone node-{id_}")
        index = zones.ids.index(id_)
        uid, amounts = own[container]
        result.setdefault(uid, []).append((index, amounts))
        sums[index].update(amounts)
    for index, sum_ in enumerate(sums):
        for name, amount in sum_.items():
            available = max(zones.available.get(name, zones.ids)[index], 0)
            if amount + available > zones.allocatable.get(name, zones.ids)[index]:
                raise PlacementError(f"node-{zones.ids[index]} would have more {name} than it has")
    return result


def _with_config(zones: NodeZones, latest: NodeZones) -> NodeZones:
    return replace(zones, config=latest.config)
