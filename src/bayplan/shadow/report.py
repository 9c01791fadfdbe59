"""The report of a shadow: plain data, and the answer about one Pod.

The format is ``view.bayplan.dev/v1alpha1``, kind ``ShadowReport`` (docs/shadow.md). Empty keys are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from bayplan.explain.why import API_VERSION
from bayplan.shadow.shadow import Shadow
from bayplan.shadow.tally import Tally
from bayplan.shadow.verdict import AGREED, NotCompared, Outcome, Verdict, sentence

T = TypeVar("T")
Document = dict[str, Any]

MOST_SHOWN = 200
"""Owners, moments and spans in a report."""


def report(shadow: Shadow, now: float) -> Document:
    """All that is summed up, at ``now``, seconds since the epoch."""
    tally, follows = shadow.tally, shadow.follows
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "ShadowReport",
        "scheduler": follows.scheduler,
        "namespaces": sorted(follows.namespaces),
        "share": follows.share,
        "since": time_of(tally.started),
        "until": time_of(now),
        "behindSeconds": round(shadow.behind, 1),
        "compared": tally.compared,
        "agreed": tally.agreed,
        "outcomes": _counts(tally.outcomes),
        "notCompared": _counts(tally.not_compared),
        "scoreDifference": tally.difference,
        "plugins": _plugins(tally),
        "owners": _owners(tally),
        "skipped": [_span(span) for span in tally.skipped],
        "measures": _measures(tally),
        "differences": [plain(verdict) for verdict in tally.differences()],
    }
    return {key: value for key, value in document.items() if value not in ([], {})}


def answer(verdicts: Sequence[Verdict]) -> Document:
    """What ``bayplan why`` shows of a Pod: the newest verdict about it, and the ones before."""
    verdict = verdicts[0]
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "PodAnswer",
        "pod": verdict.pod,
        "state": "Running" if verdict.theirs.node else "Pending",
        "sentence": sentence(verdict),
        "shadow": [plain(one) for one in verdicts],
    }
    if verdict.scores:
        document["now"] = {"best": _both(verdict)}
    return document


def plain(verdict: Verdict) -> Document:
    """A verdict as plain data."""
    document: Document = {
        "pod": verdict.pod,
        "members": list(verdict.members),
        "owner": verdict.owner,
        "time": time_of(verdict.at),
        "outcome": verdict.outcome,
        "excused": verdict.excused,
        "there": _side(verdict.theirs.node or verdict.theirs.nominated, verdict.theirs),
        "here": _side(verdict.ours.node, verdict.ours) | {"best": verdict.ours.best},
        "plugin": verdict.plugin,
        "difference": verdict.difference,
        "scores": {name: list(both) for name, both in verdict.scores.items()},
        "reasons": list(verdict.reasons),
        "sentence": sentence(verdict),
    }
    return {key: value for key, value in document.items() if value}


def time_of(seconds: float) -> str:
    """As the API server writes times."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _side(node: str, side: Any) -> Document:
    victims = sorted(side.victims)
    every = {"node": node, "message": side.message, "victims": victims}
    return {key: value for key, value in every.items() if value}


def _both(verdict: Verdict) -> list[Document]:
    """Both nodes with the scores that differ, ours first."""
    nodes = verdict.ours.node, verdict.theirs.node
    sides = [{name: both[i] for name, both in verdict.scores.items()} for i in (0, 1)]
    return [
        {"node": node, "scores": scores, "total": sum(scores.values())}
        for node, scores in zip(nodes, sides, strict=True)
    ]


def _counts(counter: Counter[T]) -> dict[str, int]:
    return {str(name): count for name, count in sorted(counter.items(), key=lambda one: -one[1])}


def _plugins(tally: Tally) -> Document:
    return {name: msgspec.to_builtins(of) for name, of in sorted(tally.plugins.items())}


def _owners(tally: Tally) -> list[Document]:
    """Those with the most differences first."""
    rows = []
    for owner, outcomes in tally.owners.items():
        differ = sum(count for outcome, count in outcomes.items() if outcome not in AGREED)
        row = {"owner": owner, "compared": outcomes.total(), "differ": differ}
        rows.append(row | {"outcomes": _counts(outcomes)})
    rows.sort(key=lambda row: (-int(str(row["differ"])), str(row["owner"])))
    return rows[:MOST_SHOWN]


def _span(span: Any) -> Document:
    document: Document = msgspec.to_builtins(span)
    return document | {"since": time_of(span.since), "until": time_of(span.until)}


def _measures(tally: Tally) -> list[Document]:
    """At most `MOST_SHOWN` moments, evenly spread, the last one among them."""
    return [
        {"time": time_of(at)} | msgspec.json.decode(measures)
        for at, measures in _spread(list(tally.measures))
    ]


def _spread(items: Sequence[T]) -> Iterable[T]:
    step = -(-len(items) // MOST_SHOWN) or 1
    return reversed(items[::-1][::step])


def agreement(report: Document) -> str:
    """The share of decisions that are alike, in words; never 100 % where one is not.

    Those that may differ, which was not found out, count as if they did.
    """
    compared, agreed = report["compared"], report["agreed"]
    unknown = report.get("notCompared", {}).get(NotCompared.NOT_CHECKED, 0)
    if not compared + unknown:
        return "nothing was compared yet"
    share = agreed / (compared + unknown)
    share = share if share == 1 else min(share, 0.9999)
    least = "at least " if unknown else ""
    return f"{agreed:,} of {compared:,} decisions are alike ({least}{share:.2%})"


OUTCOME_WORDS = {
    Outcome.SAME: "same node, the only best one here",
    Outcome.EQUAL: "same node, one of several best ones here",
    Outcome.BETTER: "another node scores more here",
    Outcome.NOMINATED: "the nominated node here, another one there",
    Outcome.INFEASIBLE: "their node does not fit here, another one does",
    Outcome.PENDING_HERE: "a node there, waits here",
    Outcome.PLACED_HERE: "waits there, a node here",
    Outcome.SAME_MESSAGE: "waits there and here, same message",
    Outcome.OTHER_MESSAGE: "waits there and here, other message",
    Outcome.SAME_EVICTIONS: "evicts the same, there and here",
    Outcome.OTHER_EVICTIONS: "evicts others here",
    Outcome.EVICTS_HERE: "waits there, evicts here",
    Outcome.EVICTS_THERE: "evicts there, waits here",
}
"""For people."""
EXCUSED_WORDS = {
    "inFlight": "explained by another order of decisions in flight",
    "notChecked": "may be a matter of that order, which was not found out",
    "behind": "the shadow was too far behind",
    "notWatched": "bound while the watch was broken",
    "group": "a group with a topology on other nodes",
    "error": "an error, there or here",
}
