"""Names what two explanations or simulations of one cluster say differently.

Both sides print the same JSON. A key that is left out equals an empty one; the order of the reasons
of a status means nothing; where kube-scheduler would choose at random, any of its choices will do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Verdict = dict[str, Any]
_NO_STATE = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
_SPREAD = "cannot determine domain for already scheduled pods: "
"""How the error begins of a group whose Pods are not in one domain. They come from a Go map."""
_REPEATED = re.compile(r"(, pod group preemption: .*?)\1+$")
"""What PodGroupPostFilter says of a CompositePodGroup: several of its groups share one status, and
kube-scheduler appends the text to it once for each of them."""
_FAULTS = "preemption: [running "
"""How a message of PostFilter begins that lists the errors of several nodes."""


@dataclass(frozen=True)
class Difference:
    """One thing on which the two sides disagree.

    ``what`` is the key of the explanation, ``expected`` is kube-scheduler's value.
    """

    pod: str
    what: str
    expected: Any
    actual: Any
    node: str = ""
    plugin: str = ""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.pod, self.node, self.plugin) if part)
        return f"{place}: {self.what}: expected {self.expected!r}, got {self.actual!r}"

    @property
    def kind(self) -> tuple[str, str]:
        """What shrinking a case has to preserve."""
        return self.what, self.plugin


def compare_explanations(
    expected: Sequence[Verdict], actual: Sequence[Verdict]
) -> list[Difference]:
    """All differences between two outputs of explain, in the order of the Pods."""
    ours = {verdict["pod"]: verdict for verdict in actual}
    found: list[Difference] = []
    for verdict in expected:
        name = verdict["pod"]
        if name in ours:
            found += _verdict(name, verdict, ours.pop(name))
        else:
            found.append(Difference(name, "pod", "judged", "left out"))
    found += [Difference(name, "pod", "left out", "judged") for name in ours]
    return found


def _verdict(pod: str, expected: Verdict, actual: Verdict) -> Iterator[Difference]:
    for what in ("preEnqueue", "preFilter"):
        yield from _status(pod, what, "", expected.get(what), actual.get(what))
    yield from _nodes(pod, expected.get("nodes") or {}, actual.get("nodes") or {})
    yield from _scores(pod, expected.get("scores") or {}, actual.get("scores") or {})
    for what in ("totals", "best", "nominated"):
        theirs, ours = expected.get(what) or None, actual.get(what) or None
        if theirs != ours:
            yield Difference(pod, what, theirs, ours)
    yield from _message(pod, expected, actual)
    yield from _post_filter(pod, expected.get("postFilter") or {}, actual.get("postFilter") or {})


def _status(
    pod: str, what: str, node: str, expected: Verdict | None, actual: Verdict | None
) -> Iterator[Difference]:
    theirs, ours = expected or {}, actual or {}
    plugin = theirs.get("plugin") or ours.get("plugin") or ""
    for key in ("code", "plugin"):
        if (theirs.get(key) or None) != (ours.get(key) or None):
            yield Difference(pod, f"{what}.{key}", theirs.get(key), ours.get(key), node, plugin)
    if sorted(theirs.get("reasons") or []) != sorted(ours.get("reasons") or []):
        yield Difference(
            pod, f"{what}.reasons", theirs.get("reasons"), ours.get("reasons"), node, plugin
        )


def _nodes(
    pod: str, expected: Mapping[str, Verdict], actual: Mapping[str, Verdict]
) -> Iterator[Difference]:
    for node in sorted({*expected, *actual}):
        yield from _status(pod, "nodes", node, expected.get(node), actual.get(node))


def _scores(
    pod: str, expected: Mapping[str, Mapping[str, int]], actual: Mapping[str, Mapping[str, int]]
) -> Iterator[Difference]:
    for node in sorted({*expected, *actual}):
        theirs, ours = expected.get(node) or {}, actual.get(node) or {}
        for plugin in sorted({*theirs, *ours}):
            if theirs.get(plugin) != ours.get(plugin):
                yield Difference(pod, "scores", theirs.get(plugin), ours.get(plugin), node, plugin)


def _message(pod: str, expected: Verdict, actual: Verdict) -> Iterator[Difference]:
    """Where several nodes have an error, kube-scheduler reports the one that came first."""
    theirs, ours = expected.get("message") or "", actual.get("message") or ""
    faults = {
        reason
        for status in (expected.get("nodes") or {}).values()
        if status["code"] == "Error"
        for reason in status["reasons"]
    }
    if ours not in faults and not _says_the_same(theirs, ours):
        yield Difference(pod, "message", theirs, ours)


def _says_the_same(theirs: str, ours: str) -> bool:
    """Whether messages are equal, up to what PostFilter says of the errors of several nodes.

    That is compared in full where it stands by itself. Likewise up to the Pods that an error of a
    group names.
    """
    if _FAULTS in theirs:
        return theirs.partition(_FAULTS)[0] == ours.partition(_FAULTS)[0]
    if _SPREAD in theirs:
        return ours.startswith(theirs.partition(_SPREAD)[0] + _SPREAD)
    return theirs == ours


def _faults(message: str) -> list[str]:
    """The message, or the errors that it lists: kube-scheduler has them from parallel dry runs."""
    if not message.startswith(_FAULTS):
        return [message]
    return sorted(message.removeprefix(_FAULTS).removesuffix("]").split(", running "))


def _post_filter(pod: str, expected: Verdict, actual: Verdict) -> Iterator[Difference]:
    if _faults(expected.get("message") or "") != _faults(actual.get("message") or ""):
        yield Difference(pod, "postFilter.message", expected.get("message"), actual.get("message"))
    theirs, ours = expected.get("nominatedNode"), actual.get("nominatedNode")
    equally_good = expected.get("tied") or [theirs]
    if (ours or None) not in equally_good:
        yield Difference(pod, "postFilter.nominatedNode", equally_good, ours)
    elif ours:
        due = expected["candidates"][ours]["victims"]
        if sorted(actual.get("victims") or []) != due:
            yield Difference(pod, "postFilter.victims", due, actual.get("victims"), ours)
    if "tied" in actual and actual["tied"] != expected.get("tied"):
        yield Difference(pod, "postFilter.tied", expected.get("tied"), actual["tied"])
    if "candidates" in actual:
        yield from _candidates(pod, expected.get("candidates") or {}, actual["candidates"])


def _candidates(
    pod: str, expected: Mapping[str, Verdict], actual: Mapping[str, Verdict]
) -> Iterator[Difference]:
    for node in sorted({*expected, *actual}):
        theirs, ours = expected.get(node) or {}, actual.get(node) or {}
        for key, empty in (("victims", []), ("pdbViolations", 0)):
            if (theirs.get(key) or empty) != (ours.get(key) or empty):
                yield Difference(
                    pod, f"postFilter.candidates.{key}", theirs.get(key), ours.get(key), node
                )


def compare_simulations(expected: Sequence[Verdict], actual: Sequence[Verdict]) -> list[Difference]:
    """The first step on which two outputs of simulate differ: the steps after it follow from it.

    Who holds a Pod back in PreEnqueue, only ours says: theirs has neither a node nor a message.
    Groups of which no Pod came as far as DynamicResources end in an error there, through no fault
    of theirs; nothing of them is placed on either side.
    """
    for theirs, ours in zip(expected, actual, strict=False):
        if _NO_STATE in (theirs.get("podGroup") or {}).get("condition", ""):
            continue
        held = theirs.get("node") is None and not theirs.get("message")
        told = held and str(ours.get("message")).startswith("held back by ")
        for what in ("pod", "node", "best", "podGroup", *(() if told else ("message",))):
            due, given = theirs.get(what) or None, ours.get(what) or None
            if due != given and not _alike(what, due, given):
                return [Difference(theirs["pod"], f"simulate.{what}", due, given)]
    if len(expected) != len(actual):
        return [Difference("", "simulate.length", len(expected), len(actual))]
    return []


def _alike(what: str, expected: Any, actual: Any) -> bool:
    """Whether two values differ only in what kube-scheduler leaves to chance."""
    if what == "message":
        return _says_the_same(expected or "", actual or "")
    if what == "podGroup" and expected and actual:
        theirs, ours = dict(expected), dict(actual)
        said = {"": theirs.pop("condition", ""), **theirs.pop("conditions", {})}
        told = {"": ours.pop("condition", ""), **ours.pop("conditions", {})}
        same = said.keys() == told.keys() and all(
            _says_the_same(_REPEATED.sub(r"\1", said[name]), told[name]) for name in said
        )
        return same and theirs == ours
    return False
