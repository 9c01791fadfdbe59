from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.queue.support import CLAIM_ADD, NODE_ADD, NODE_LABEL, PROFILE, on, pod

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM, SERVICE
from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintIndex,
)
from bayplan.framework.interface import Plugin
from bayplan.queue.hints import HintTable, QueueingStrategy, registrations
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.unschedulable import UnschedulablePods
from bayplan.queue.update_events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT

SKIP, AFTER_BACKOFF, IMMEDIATELY = (
    QueueingStrategy.SKIP,
    QueueingStrategy.AFTER_BACKOFF,
    QueueingStrategy.IMMEDIATELY,
)


def rejected(unschedulable: str = "", pending: str = "") -> QueuedPod:
    queued = QueuedPod(pod("p").obj(), 0.0)
    queued.unschedulable_plugins = frozenset(unschedulable.split())
    queued.pending_plugins = frozenset(pending.split())
    return queued


TABLE = HintTable(
    {
        PROFILE: [
            ("NoHint", on(NODE_ADD)),
            ("Yes", on(NODE_ADD, Hint.QUEUE)),
            ("No", on(NODE_ADD, Hint.SKIP)),
            ("Label", on(NODE_LABEL)),
            ("Label", on(NODE_ADD, Hint.SKIP)),
        ],
        "other": [("OnlyThere", on(NODE_ADD))],
    }
)


@pytest.mark.parametrize(
    ("queued", "event", "new", "strategy"),
    [
        pytest.param(rejected(), NODE_ADD, None, AFTER_BACKOFF, id="an error, whatever happens"),
        pytest.param(rejected("NoHint"), NODE_ADD, None, AFTER_BACKOFF, id="registered, no hint"),
        pytest.param(rejected("NoHint"), NODE_LABEL, None, SKIP, id="not registered for it"),
        pytest.param(rejected("Yes"), NODE_ADD, None, AFTER_BACKOFF, id="hint says yes"),
        pytest.param(rejected("No"), NODE_ADD, None, SKIP, id="hint says no"),
        pytest.param(rejected("No Yes"), NODE_ADD, None, AFTER_BACKOFF, id="one of two says yes"),
        pytest.param(rejected("Unknown"), NODE_ADD, None, SKIP, id="a plugin without events"),
        pytest.param(rejected("OnlyThere"), NODE_ADD, None, SKIP, id="a plugin of another profile"),
        pytest.param(rejected("Label"), NODE_LABEL, None, AFTER_BACKOFF, id="other registration"),
        pytest.param(rejected("", "Yes"), NODE_ADD, None, IMMEDIATELY, id="pending says yes"),
        pytest.param(rejected("", "No"), NODE_ADD, None, SKIP, id="pending says no"),
        pytest.param(
            rejected("NoHint", "Yes"), NODE_ADD, None, IMMEDIATELY, id="both say yes: pending wins"
        ),
        pytest.param(
            rejected("Yes", "No"), NODE_ADD, None, AFTER_BACKOFF, id="only the rejection says yes"
        ),
        pytest.param(rejected("No"), UNSCHEDULABLE_TIMEOUT, None, AFTER_BACKOFF, id="wildcard"),
        pytest.param(
            rejected("No"), FORCE_ACTIVATE, pod("p").obj(), AFTER_BACKOFF, id="wildcard for this"
        ),
        pytest.param(
            rejected("No"), FORCE_ACTIVATE, pod("other").obj(), SKIP, id="wildcard for another"
        ),
    ],
)
def test_an_event_is_worth_what_the_rejecting_plugins_say(
    queued: QueuedPod, event: ClusterEvent, new: Any, strategy: QueueingStrategy
) -> None:
    assert TABLE.strategy(queued, event, None, new) is strategy


def test_only_rejecting_plugins_are_asked_and_they_see_the_objects() -> None:
    calls: list[tuple[str, Pod, Any, Any]] = []

    def hint(name: str) -> Callable[..., Any]:
        def answer(waiting: Pod, old: Any, new: Any) -> Hint:
            calls.append((name, waiting, old, new))
            return Hint.SKIP

        return answer

    table = HintTable({PROFILE: [(n, on(NODE_ADD, hint(n))) for n in ("A", "B", "C")]})
    queued = rejected("B")
    table.strategy(queued, NODE_ADD, "old", "new")
    assert calls == [("B", queued.pod, "old", "new")]


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit("boom")])
def test_a_hint_that_raises_counts_as_queue_and_is_logged_once(error: BaseException) -> None:
    def broken(*_: Any) -> Hint:
        raise error

    table = HintTable({PROFILE: [("Broken", on(NODE_ADD, broken))]})
    with capture_logs() as logs:
        answers = [table.strategy(rejected("Broken"), NODE_ADD, None, None) for _ in range(3)]
    assert answers == [AFTER_BACKOFF] * 3
    assert [(log["plugin"], log["cluster_event"], log["pod"]) for log in logs] == [
        ("Broken", "NodeAdd", "default/p")
    ]


def test_a_pod_of_an_unknown_profile_is_not_woken_by_events() -> None:
    queued = rejected("Yes")
    queued.pod = pod("p").spec(schedulerName="nobody").obj()
    assert TABLE.strategy(queued, NODE_ADD, None, None) is SKIP


@pytest.mark.parametrize("event", [NODE_ADD, ClusterEvent(SERVICE, Action.DELETE)])
def test_any_event_may_change_the_mind_of_an_extender(event: ClusterEvent) -> None:
    table = HintTable({PROFILE: []}, extenders=True)
    assert table.strategy(rejected("Extender"), event, None, None) is AFTER_BACKOFF
    assert HintTable({PROFILE: []}).interest(event).plugins == ()


def test_interest_names_each_interested_plugin_of_each_profile_once() -> None:
    table = HintTable(
        {
            "a": [("Fit", on(NODE_ADD)), ("Fit", on(NODE_ADD)), ("Not", on(NODE_LABEL))],
            "b": [("Fit", on(NODE_ADD))],
        }
    )
    assert table.interest(NODE_ADD).plugins == (("a", "Fit"), ("b", "Fit"))


def _number(pod: Pod) -> list[str]:
    return [pod.name[-1]]


def _numbers(old: object, new: object) -> list[str] | None:
    return None if new == "all" else str(new).split()


@pytest.mark.parametrize(
    ("new", "asked"),
    [("1", ["p1"]), ("2 0", ["p0", "p2"]), ("", []), ("7", []), ("all", ["p0", "p1", "p2"])],
)
def test_an_index_spares_the_hints_of_pods_that_an_event_does_not_concern(
    new: str, asked: list[str]
) -> None:
    seen: list[str] = []

    def hint(pod: Pod, _old: object, _new: object) -> Hint:
        seen.append(pod.name)
        return Hint.SKIP

    indexed = EventRegistration(NODE_ADD, hint, HintIndex(_number, _numbers))
    table = HintTable({PROFILE: [("Claims", indexed), ("Other", on(NODE_ADD))]})
    waiting = UnschedulablePods(attrgetter("rejectors"), table.wait_keys)
    for number in range(3):
        queued = QueuedPod(pod(f"p{number}").obj(), 0.0)
        queued.unschedulable_plugins = frozenset({"Claims"})
        waiting.add(queued)
    keys = table.interest(NODE_ADD).concerned("old", new)
    assert list(table.woken(NODE_ADD, "old", new, waiting.waiting_for(keys))) == []
    assert sorted(seen) == asked


def _breaks(*_: object) -> list[str]:
    raise RuntimeError("no keys")


def _unhashable(*_: object) -> Any:
    return [["1"]]


@pytest.mark.parametrize("breaks", [_breaks, _unhashable])
@pytest.mark.parametrize("of", ["pod", "event"])
def test_an_index_that_breaks_is_used_no_more(breaks: Any, of: str) -> None:
    index = HintIndex(breaks, _numbers) if of == "pod" else HintIndex(_number, breaks)
    table = HintTable({PROFILE: [("Claims", EventRegistration(NODE_ADD, None, index))]})
    waiting = UnschedulablePods(attrgetter("rejectors"), table.wait_keys)
    queued = rejected("Claims")
    waiting.add(queued)
    keys = table.interest(NODE_ADD).concerned("old", "7")
    assert waiting.waiting_for(keys) == [queued]


def test_a_plugin_with_a_registration_that_has_no_index_is_asked_about_all() -> None:
    indexed = EventRegistration(NODE_ADD, None, HintIndex(_number, _numbers))
    table = HintTable({PROFILE: [("Claims", indexed), ("Claims", on(NODE_ADD))]})
    assert list(table.interest(NODE_ADD).concerned(None, "1")) == [(PROFILE, "Claims")]


class Silent(Plugin):
    pass


class Nothing(Plugin):
    def events_to_register(self) -> list[EventRegistration]:
        return []


class WantsNodes(Plugin):
    kinds = (PERSISTENT_VOLUME_CLAIM,)

    def events_to_register(self) -> list[EventRegistration]:
        return [on(NODE_ADD), on(CLAIM_ADD)]


class WantsNodesAndTaints(Plugin):
    def events_to_register(self) -> list[EventRegistration]:
        both = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        return [on(both, Hint.SKIP)]


class WantsWhatItDoesNotDeclare(Plugin):
    def events_to_register(self) -> list[EventRegistration]:
        return [on(CLAIM_ADD)]


def test_a_plugin_registers_only_for_kinds_that_it_declares() -> None:
    plugin = WantsWhatItDoesNotDeclare(None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"v1 PersistentVolumeClaim.* is not among the plugin's"):
        registrations([plugin])


@pytest.mark.parametrize(
    ("plugin", "woken_by"),
    [
        pytest.param(Silent, {"NodeAdd", "NodeUpdateNodeTaint", "ServiceAdd"}, id="no method"),
        pytest.param(Nothing, set(), id="no events"),
        pytest.param(WantsNodes, {"NodeAdd"}, id="nodes"),
        pytest.param(WantsNodesAndTaints, set(), id="nodes and taints, with a hint: as it says"),
    ],
)
def test_what_a_plugin_registers_for(plugin: type[Plugin], woken_by: set[str]) -> None:
    table = HintTable({PROFILE: registrations([plugin(None, None)])})  # type: ignore[arg-type]
    events = [
        NODE_ADD,
        ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
        ClusterEvent(SERVICE, Action.ADD),
    ]
    queued = rejected(plugin.__name__)
    woken = {e.label for e in events if table.strategy(queued, e, None, None) is AFTER_BACKOFF}
    assert woken == woken_by
