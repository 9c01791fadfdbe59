"""Workloads: what workloads.yaml says, checked, and scaled to the size that is asked for.

Counts only; `bench.objects` makes API objects of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

FILE = Path(__file__).with_name("workloads.yaml")
REFERENCE_NODES = 5000
"""What the counts of a workload without a group of nodes are meant for."""


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of workloads.yaml."""


class Namespaces(Data, frozen=True):
    """One namespace, or with ``count`` as many: name-0, name-1, ..."""

    name: str
    count: int = 0
    labels: dict[str, str] = {}

    def names(self) -> list[str]:
        """All of them."""
        return [f"{self.name}-{i}" for i in range(self.count)] if self.count else [self.name]


class NodeGroup(Data, frozen=True):
    """Nodes of one template; a group with a ``name`` is one node of that name.

    Attributes:
        prefix: what the names of the others begin with; one group of them is enough for most.
        rack: so many nodes, one after the other, have the same value of the rack label; 0: none.
        beside: templates of objects that every node has beside it, of the same name.
    """

    template: str = "node"
    count: int = 1
    name: str = ""
    prefix: str = "node-"
    rack: int = 0
    zones: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class PodBatch(Data, frozen=True):
    """Pods of one template or mix, spread over ``namespaces`` namespaces if that is not 0.

    Attributes:
        beside: templates of objects that every Pod has beside it, of the same name.
        app: what $APP stands for.
        group: the template of a PodGroup for every ``members`` Pods, created before them.
    """

    count: int
    template: str = "plain"
    namespace: str = "default"
    namespaces: int = 0
    beside: tuple[str, ...] = ()
    app: str = "bench"
    group: str = ""
    members: int = 1

    def resized(self, count: int) -> PodBatch:
        """About ``count`` Pods: of whole groups, or one smaller group where that is less."""
        members = min(self.members, max(1, count))
        return msgspec.structs.replace(self, count=count - count % members, members=members)

    def namespace_of(self, index: int) -> str:
        """The namespace of the Pod with that index."""
        if not self.namespaces:
            return self.namespace
        return f"{self.namespace}-{index % self.namespaces}"


class Churn(Data, frozen=True):
    """What goes on beside the measured Pods, ``every`` so many seconds."""

    do: Literal["create", "recreate", "delete"]
    every: float
    template: str = "plain"


class Workload(Data, frozen=True):
    """One workload; see workloads.yaml for the fields."""

    nodes: tuple[NodeGroup, ...]
    measured: PodBatch
    namespaces: tuple[Namespaces, ...] = ()
    gates: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    placed: tuple[PodBatch, ...] = ()
    gated: tuple[PodBatch, ...] = ()
    churn: tuple[Churn, ...] = ()
    controllers: tuple[str, ...] = ()
    fill: str = "plain"
    arrival: float = 0.0
    waiting: int = 0
    aim: float = 0.0
    since: Literal["start", "first binding"] = "first binding"
    name: str = ""

    @property
    def gate_flag(self) -> str:
        """The feature gates as a flag of API server and schedulers."""
        return "--feature-gates=" + ",".join(f"{gate}=true" for gate in self.gates)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return sum(group.count for group in self.nodes)

    @property
    def placed_count(self) -> int:
        """How many Pods have a node from the start."""
        return sum(group.count for group in self.placed)

    def sized(
        self, nodes: int | None = None, pods: int | None = None, placed: int | None = None
    ) -> Workload:
        """The workload for ``nodes`` nodes, ``pods`` measured and ``placed`` placed Pods.

        Nodes scale all other counts that are not given. Placed Pods that are missing are added as
        Pods of the template ``fill``; when there are too many, groups are cut from the end.
        """
        factor = nodes / self.reference if nodes else 1.0
        wanted = _scaled(self.measured.count, factor) if pods is None else pods
        measured = self.measured.resized(wanted)
        before = tuple(_resized(group, factor) for group in self.placed)
        return msgspec.structs.replace(
            self,
            nodes=tuple(
                g if g.name else msgspec.structs.replace(g, count=_scaled(g.count, factor))
                for g in self.nodes
            ),
            placed=before if placed is None else self._with_placed(before, placed),
            gated=tuple(_resized(group, factor) for group in self.gated),
            measured=measured,
            waiting=round(self.waiting * measured.count / self.measured.count),
        )

    @property
    def reference(self) -> int:
        """The number of nodes for which `sized` leaves all counts as they are."""
        return sum(group.count for group in self.nodes if not group.name) or REFERENCE_NODES

    def _with_placed(self, groups: Sequence[PodBatch], placed: int) -> tuple[PodBatch, ...]:
        kept, left = [], placed
        for group in groups:
            kept.append(group.resized(min(group.count, left)))
            left -= kept[-1].count
        namespace = groups[0] if groups else self.measured
        filler = msgspec.structs.replace(
            namespace,
            template=self.fill,
            count=left,
            beside=(),
            app=self.measured.app,
            group="",
            members=1,
        )
        return (*kept, filler)


class Mix(Data, frozen=True):
    """Templates made of a base and one choice of every aspect."""

    base: str
    variants: int
    aspects: dict[str, list[dict[str, Any]]]


class Catalog(Data, frozen=True):
    """All that workloads.yaml holds."""

    templates: dict[str, dict[str, Any]]
    mixes: dict[str, Mix]
    workloads: dict[str, Workload]
    sets: dict[str, list[str]]

    def select(self, names: str) -> list[Workload]:
        """The workloads named in a comma-separated list, which may name sets; or "all".

        Raises:
            LookupError: there is no workload of such a name.
        """
        given = list(self.workloads) if names == "all" else names.split(",")
        wanted = [name for word in given for name in self.sets.get(word, [word])]
        unknown = [name for name in wanted if name not in self.workloads]
        if unknown:
            known = ", ".join(self.workloads)
            raise LookupError(f"no workload {', '.join(unknown)}: there are {known}")
        return [msgspec.structs.replace(self.workloads[name], name=name) for name in wanted]


def load_catalog() -> Catalog:
    """Read workloads.yaml.

    Raises:
        msgspec.ValidationError: something in it is wrong; the message has the path.
    """
    document = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader)
    return msgspec.convert(document, Catalog)


def _scaled(count: int, factor: float) -> int:
    return max(1, round(count * factor)) if count else 0


def _resized(batch: PodBatch, factor: float) -> PodBatch:
    return batch.resized(_scaled(batch.count, factor))
