"""What a run reached: rejections by plugin and reason, how scores vary, which features Pods had.

A feature is found in the objects, not taken from the generator: it is the path of a field in the
Pod's spec, in its claims and the devices of the cluster, or in the configuration, with the value
where it is an operator or a policy. So a case from anywhere can be counted alike.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from e2e.conformance.compare import Difference, Verdict
    from e2e.conformance.generator import Case

Item = dict[str, Any]

UNTOLD = frozenset({"name", "image", "containerPort", "volumeID", "pdName", "uid"})
"""Fields that every Pod has, or whose presence says nothing about scheduling."""

ENUMERATED = frozenset(
    {
        "operator",
        "effect",
        "topologyKey",
        "whenUnsatisfiable",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "restartPolicy",
        "protocol",
        "hostIP",
        "defaultingType",
        "type",
        "name",
        "allocationMode",
    }
)
"""Fields whose value is part of the feature."""

MAPS = frozenset({"matchLabels", "nodeSelector", "labels", "parameters"})
"""Fields that hold free keys."""

DEVICE_KINDS = frozenset({"ResourceSlice", "DeviceClass", "DeviceTaintRule"})
"""What every Pod with claims has to do with."""


def features_of(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all fields below a value."""
    if isinstance(value, list) and value:
        for item in value:
            yield from features_of(item, path)
    elif isinstance(value, dict) and value and path.rpartition(".")[2] not in MAPS:
        for key, item in value.items():
            short = key.removesuffix("DuringSchedulingIgnoredDuringExecution")
            if key not in UNTOLD or path.startswith("plugins."):
                yield from features_of(item, f"{path}.{short}" if path else short)
    elif path:
        last = path.rpartition(".")[2]
        yield f"{path}={value}" if last in ENUMERATED else path


OUTCOMES = {
    "preEnqueue": "gated",
    "preFilter": "rejected by PreFilter",
    "nominated": "placed on its nominated node",
    "scores": "placed, scored",
    "best": "placed, one node fits",
    "postFilter": "fits nowhere",
}
"""What became of a Pod, by the first of these keys that its verdict has."""


class Reach:
    """Counts over all cases of a run."""

    def __init__(self) -> None:
        self.verdicts = 0
        self.clusters = 0
        self.outcomes: Counter[str] = Counter()
        self.rejections: Counter[tuple[str, str]] = Counter()
        self.scores: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.uneven: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.disagreed: Counter[str] = Counter()

    def count(self, case: Case, expected: list[Verdict], differences: list[Difference]) -> None:
        """Add a case: kube-scheduler's verdicts on it, and where bayplan differs."""
        self.clusters += 1
        wrong = {difference.pod for difference in differences}
        specs = {_key(item): item["spec"] for item in case.items if item["kind"] == "Pod"}
        devices = _DeviceFeatures(case.items)
        shared = {f"config {name}" for name in features_of((case.config or {}).get("profiles"))}
        for verdict in expected:
            self.verdicts += 1
            self._count_verdict(verdict)
            features = {*features_of(specs[verdict["pod"]])} | shared
            features |= devices.of(verdict["pod"], specs[verdict["pod"]])
            self.judged.update(features)
            if verdict["pod"] in wrong:
                self.disagreed.update(features)

    def _count_verdict(self, verdict: Verdict) -> None:
        self.outcomes.update(_outcomes(verdict))
        for point in ("preEnqueue", "preFilter"):
            if point in verdict:
                self._count_rejection(verdict[point], 1)
        for status in (verdict.get("nodes") or {}).values():
            if status["code"] != "Success":
                self._count_rejection(status, 1)
        per_plugin: defaultdict[str, set[int]] = defaultdict(set)
        for scores in (verdict.get("scores") or {}).values():
            for plugin, score in scores.items():
                self.scores[plugin][score] += 1
                per_plugin[plugin].add(score)
        self.uneven.update(plugin for plugin, values in per_plugin.items() if len(values) > 1)

    def _count_rejection(self, status: Mapping[str, Any], nodes: int) -> None:
        for reason in status.get("reasons") or []:
            general = re.sub(r'"[^"]*"', '"..."', reason)
            general = re.sub(r"(?<=claim )[\w/-]+|(?<=on device )[\w./-]+", "...", general)
            general = re.sub(r"\b(pod|claim|devices|pv|bound|node)-[\w-]*\d+[\w-]*", "...", general)
            self.rejections[f"{status.get('plugin', '-')} {status['code']}", general] += nodes

    def merge(self, other: Reach) -> None:
        """Add what another process counted."""
        self.verdicts += other.verdicts
        self.clusters += other.clusters
        for name in ("outcomes", "rejections", "uneven", "judged", "disagreed"):
            getattr(self, name).update(getattr(other, name))
        for plugin, values in other.scores.items():
            self.scores[plugin].update(values)

    def print(self, console: Console, features: bool) -> None:
        """Print the counts as tables: of all features, or of those alone with disagreements."""
        console.print(f"{self.clusters} clusters, {self.verdicts} Pods judged")
        console.print(_table("Outcome", self.outcomes.most_common(), "Pods"))
        rows = [(" ".join(key), count) for key, count in sorted(self.rejections.items())]
        console.print(_table("Rejected by: reason", rows, "nodes"))
        console.print(self._score_table())
        console.print(f"{len(self.judged)} different features of Pods and configurations")
        if features or self.disagreed:
            console.print(self._feature_table(features))

    def _score_table(self) -> Table:
        table = Table("Scored by", "lowest", "highest", "different", "uneven for Pods")
        for plugin, values in sorted(self.scores.items()):
            row = (min(values), max(values), len(values), self.uneven[plugin])
            table.add_row(plugin, *map(str, row))
        return table

    def _feature_table(self, agreed_too: bool) -> Table:
        table = Table("Feature", "Pods", "agreed")
        for feature, count in sorted(self.judged.items()):
            if not agreed_too and not self.disagreed[feature]:
                continue
            share = 100 * (count - self.disagreed[feature]) / count
            table.add_row(feature, str(count), f"{share:.4g} %")
        return table


class _DeviceFeatures:
    """The features of what Pods claim, and of the devices of the cluster."""

    def __init__(self, items: list[Item]) -> None:
        self._claims = {
            (item["kind"], _key(item)): {*features_of([item["spec"], item.get("status")], "claim")}
            for item in items
            if item["kind"] in ("ResourceClaim", "ResourceClaimTemplate")
        }
        self._offered = {
            feature
            for item in items
            if item["kind"] in DEVICE_KINDS
            for feature in features_of(item["spec"], item["kind"])
        }

    def of(self, pod: str, spec: Item) -> set[str]:
        """All that has to do with the claims of the Pod ``namespace/name``."""
        namespace = pod.partition("/")[0]
        features: set[str] = set()
        for claim in spec.get("resourceClaims", []):
            for kind in ("ResourceClaim", "ResourceClaimTemplate"):
                name = claim.get(f"{kind[0].lower()}{kind[1:]}Name")
                features |= self._claims.get((kind, f"{namespace}/{name}"), set())
            features |= self._offered
        return features


def _key(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _outcomes(verdict: Verdict) -> Iterator[str]:
    for key, outcome in OUTCOMES.items():
        if verdict.get(key):
            yield outcome
            break
    else:
        yield "attempt failed"
    preempting = verdict.get("postFilter") or {}
    for key in ("nominatedNode", "tied"):
        if key in preempting:
            yield f"preemption: {key}"
    for candidate in (preempting.get("candidates") or {}).values():
        if candidate.get("pdbViolations"):
            yield "preemption: candidate that violates a budget"


def _table(title: str, rows: list[tuple[str, int]], unit: str) -> Table:
    table = Table(title, unit)
    for name, count in rows:
        table.add_row(name, str(count))
    return table
