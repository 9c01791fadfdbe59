"""Survivors: what would survive now of the workloads with a rule, and whom nobody evicts.

The Pods on nodes are counted by workload. What survives is all of them, less the fullest domains.
Evicting a Pod never makes that more. So as many Pods of a workload may be evicted, one after the
other, as leave enough survivors, by priority, the youngest first; all others are never evicted for
other Pods. Any part of the first may go then, whoever asks, and enough survive.

Where too few would survive for long, an event is on the workload and a condition on its Pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice

import numpy as np

from bayplan.api.kinds import JOB, JOB_SET, KUBERNETES_POD_GROUP, LEADER_WORKER_SET, POD_GROUP
from bayplan.api.meta import Object, ObjectFault
from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray
from bayplan.cache.node_table import ABSENT, LiveNodeTable
from bayplan.cache.node_table.pod_table import start
from bayplan.framework.effects import Effect
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.services import Survival
from bayplan.plugins.blast_radius.conditions import Say, says_too_few, survives
from bayplan.plugins.blast_radius.rules import OWNERS, SURVIVE, Rule, Rules, Workload

_SAY_SO = (*OWNERS, POD_GROUP, KUBERNETES_POD_GROUP, JOB, JOB_SET, LEADER_WORKER_SET)
_MOST_SAID = 100
"""Conditions that are written at one look."""
_MOST_SHOWN = 1000
"""Workloads and domains with a metric."""
Key = tuple[str, Workload]
"""A namespace, and a workload in it."""


@dataclass
class Placed:
    """The Pods of a workload on nodes, by uid; not Pods that are being deleted.

    Attributes:
        kept: the answer of `Survivors._may_go`, and the position of the journals then.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    kept: tuple[object, frozenset[str]] = (None, frozenset())


@dataclass(frozen=True)
class Outlook:
    """What would survive of a workload.

    Attributes:
        counts: Pods by domain, the most first.
    """

    rule: Rule
    counts: Sequence[tuple[str, int]]

    @property
    def total(self) -> int:
        """How many Pods are in a domain."""
        return sum(count for _, count in self.counts)

    @property
    def survivors(self) -> int:
        """How many survive the loss of the fullest domains."""
        return sum(count for _, count in self.counts[self.rule.lose :])

    @property
    def left(self) -> Mapping[str, int]:
        """By domain, how many survive if the domain is lost, with the fullest others."""
        counts, others = self.counts, self.rule.lose - 1
        left = {}
        for name, count in counts:
            fullest = [other for domain, other in counts[: others + 1] if domain != name]
            left[name] = self.total - count - sum(fullest[:others])
        return left

    @property
    def missing(self) -> Mapping[str, float]:
        """By domain, the share of missing survivors if the domain is lost."""
        need = self.rule.need
        return {name: max(0, need - left) / max(need, 1) for name, left in self.left.items()}

    def __str__(self) -> str:
        rule = self.rule
        lost = " and ".join(f"{rule.domain}={name}" for name, _ in self.counts[: rule.lose])
        left = f"would leave {self.survivors} of {self.total} Pods"
        return f"the loss of {lost or 'a domain'} {left}, {rule.need} of {rule.size} must survive"


def _shown(workload: Workload) -> str:
    """A workload as the value of a label."""
    if isinstance(workload, str):
        return workload
    return ",".join(f"{label}={value}" for label, value in sorted(workload))


class Survivors:
    """See the module's docstring; a `NeverEvicted` of `bayplan.framework.services`.

    Scheduling thread only.
    """

    def __init__(self, handle: InTreeHandle, rules: Rules, plugin: str) -> None:
        self._nodes: LiveNodeTable = handle.nodes
        self._pods, self._rules = handle.pods, rules
        self._plugin = plugin
        self._metrics = PluginMetrics(handle.instrument, plugin)
        self._placed: dict[Key, Placed] = {}
        self._keys: dict[str, Key] = {}
        """By uid of a Pod that has a rule."""
        self._freed = set[str]()
        """Uids of Pods with a condition, but no rule any more."""
        self._dirty = True
        self._at_risk: frozenset[ObjectFault] = frozenset()
        self.faults: Sequence[ObjectFault] = ()
        self.survivals: Sequence[Survival] = ()
        handle.pods.listen(self)
        for kind in _SAY_SO:
            handle.objects.on_change(kind, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """Pods that are there already may have a rule now, or none any more."""
        before, after = (
            None if obj is None else obj.metadata.annotations.get(SURVIVE) for obj in (old, new)
        )
        self._dirty = self._dirty or before != after

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        if pod.deleted is not None:
            return
        if not self._dirty and self._rules.of(pod) is not None:
            self._add(pod)
        elif says_too_few(pod):
            self._freed.add(pod.uid)

    def _add(self, pod: Pod) -> None:
        key = self._keys[pod.uid] = pod.namespace, self._rules.workload(pod.shape)
        placed = self._placed.setdefault(key, Placed())
        placed.pods[pod.uid] = pod
        placed.kept = (None, frozenset())

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        key = self._keys.pop(pod.uid, None)
        if key is None:
            return
        placed = self._placed[key]
        del placed.pods[pod.uid]
        placed.kept = (None, frozenset())
        if not placed.pods:
            del self._placed[key]

    def _fresh(self) -> dict[Key, Placed]:
        if self._dirty:
            self._dirty = False
            self._placed.clear()
            self._keys.clear()
            for pod in self._pods.pods():
                self.pod_counted(pod)
        return self._placed

    # Never evicted

    @property
    def any(self) -> bool:
        """Whether there may be Pods that are never evicted."""
        return bool(self._fresh())

    def __contains__(self, pod: Pod) -> bool:
        key = self._keys.get(pod.uid) if self._fresh() else None
        return key is not None and pod.uid not in self._may_go(self._placed[key])

    def _may_go(self, placed: Placed) -> frozenset[str]:
        """Uids of the Pods that may be evicted, alone or all together."""
        rule = self._rules.of(next(iter(placed.pods.values())))
        if not isinstance(rule, Rule) or not rule.hard:
            return frozenset(placed.pods)
        seen = rule, self._nodes.node_journal.position
        if placed.kept[0] == seen:
            return placed.kept[1]
        column = self._nodes.label(rule.domain)
        counts, going = dict(self._outlook(placed, rule).counts), list[str]()
        for pod in sorted(placed.pods.values(), key=lambda pod: (pod.priority, -start(pod))):
            row = self._nodes.row(pod.node_name)
            code = ABSENT if row is None else int(column.codes[row])
            if code != ABSENT:
                name = column.values[code]
                fewer = [count - (domain == name) for domain, count in counts.items()]
                if sum(sorted(fewer, reverse=True)[rule.lose :]) < rule.need:
                    continue
                counts[name] -= 1
            going.append(pod.uid)
        placed.kept = seen, frozenset(going)
        return placed.kept[1]

    # What would survive

    def _outlook(self, placed: Placed, rule: Rule) -> Outlook:
        column = self._nodes.label(rule.domain)
        rows = [self._nodes.row(pod.node_name) for pod in placed.pods.values()]
        codes = column.codes[[row for row in rows if row is not None]]
        there, counts = np.unique(codes[codes != ABSENT], return_counts=True)
        pairs = zip((column.values[code] for code in there.tolist()), counts.tolist(), strict=True)
        return Outlook(rule, sorted(pairs, key=lambda pair: (-pair[1], pair[0])))

    def outlooks(self) -> Iterator[tuple[Placed, Outlook]]:
        """What would survive of each workload that has a rule."""
        for placed in self._fresh().values():
            rule = self._rules.of(next(iter(placed.pods.values())))
            if isinstance(rule, Rule):
                yield placed, self._outlook(placed, rule)

    def missing_with(self, pod: Pod) -> FloatArray:
        """(n,) how many survivors its workload lacks with one more Pod, ``pod``, on each row."""
        rule = self._rules.of(pod)
        if not isinstance(rule, Rule):
            return np.zeros(len(self._nodes))
        key = pod.namespace, self._rules.workload(pod.shape)
        counts = dict(self._outlook(self._fresh().get(key, Placed()), rule).counts)
        column = self._nodes.label(rule.domain)
        lacking = np.full(len(column.values) + 1, self._lacking(rule, counts), np.float64)
        for code, name in enumerate(column.values):
            lacking[code] = self._lacking(rule, counts | {name: counts.get(name, 0) + 1})
        return lacking[column.codes]

    @staticmethod
    def _lacking(rule: Rule, counts: Mapping[str, int]) -> int:
        return max(0, rule.need - sum(sorted(counts.values(), reverse=True)[rule.lose :]))

    def recount(self) -> int:
        """How many Pods are missing, or are there wrongly."""
        counted = set(self._keys) if self._fresh() else set[str]()
        pods = (pod for pod in self._pods.pods() if pod.deleted is None)
        return len(counted ^ {pod.uid for pod in pods if self._rules.of(pod) is not None})

    def look(self) -> Sequence[Effect]:
        """Count the workloads with too few survivors; a fault where there are too few for long."""
        looked = list(self.outlooks())
        risky = [(placed, o) for placed, o in looked if o.survivors < o.rule.need]
        faults = frozenset(self._fault(*each) for each in risky)
        lasting = faults & self._at_risk
        self._at_risk = faults
        if lasting != frozenset(self.faults):
            self.faults = sorted(lasting, key=lambda fault: fault.message)
        self.survivals = self._survivals(looked)
        self._metrics.set("workloads", len(looked))
        self._metrics.set("workloads_at_risk", len(risky))
        self._metrics.set("survivors_missing", sum(o.rule.need - o.survivors for _, o in risky))
        return list(islice(self._said(looked, lasting), _MOST_SAID))

    def _survivals(self, looked: Sequence[tuple[Placed, Outlook]]) -> Sequence[Survival]:
        """By workload and domain; where there are very many, those with the fewest to spare."""
        survivals = [
            Survival(key[0], _shown(key[1]), f"{o.rule.domain}={name}", left, o.rule.need)
            for placed, o in looked
            for key in (self._keys[next(iter(placed.pods))],)
            for name, left in o.left.items()
        ]
        return nsmallest(_MOST_SHOWN, survivals, key=lambda each: (each.pods - each.needed, each))

    def _fault(self, placed: Placed, outlook: Outlook) -> ObjectFault:
        subject = self._rules.subject(next(iter(placed.pods.values())))
        return ObjectFault(subject, "WouldNotSurvive", str(outlook))

    def _said(
        self, looked: Sequence[tuple[Placed, Outlook]], lasting: frozenset[ObjectFault]
    ) -> Iterator[Say]:
        """The conditions to be written."""
        for placed, outlook in looked:
            rule = outlook.rule
            enough = outlook.survivors >= rule.need
            if not enough and self._fault(placed, outlook) not in lasting:
                continue
            for pod in filter(None, map(self._pods.pod, placed.pods)):
                if says_too_few(pod) is enough:
                    yield survives(self._plugin, pod, rule, enough=enough)
        for uid in tuple(self._freed):
            freed = None if uid in self._keys else self._pods.pod(uid)
            if freed is not None and freed.deleted is None and says_too_few(freed):
                yield survives(self._plugin, freed, None, enough=True)
            else:
                self._freed.discard(uid)

    def shares(self) -> FloatArray:
        """(n,) of the survivors of a workload with Pods on each row how many are missing at worst.

        That is, if the domain of the row is lost; NaN without a workload that has a rule.
        """
        shares = np.full(len(self._nodes), np.nan)
        for placed, outlook in self.outlooks():
            column, missing = self._nodes.label(outlook.rule.domain), outlook.missing
            for row in {self._nodes.row(pod.node_name) for pod in placed.pods.values()}:
                code = ABSENT if row is None else int(column.codes[row])
                if row is not None and code != ABSENT:
                    shares[row] = np.fmax(shares[row], missing[column.values[code]])
        return shares
