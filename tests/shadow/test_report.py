"""What is summed up, bounded, and shown."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from tests.shadow.harness import Followed
from tests.shadow.test_verdicts import PACKING, node, pod

from bayplan.measures import measures_of
from bayplan.shadow import page
from bayplan.shadow.report import MOST_SHOWN, agreement, answer, report
from bayplan.shadow.tally import MOST_OWNERS, OTHERS, Tally
from bayplan.shadow.verdict import NotCompared, Ours, Outcome, Theirs, Verdict
from bayplan.testing.ports import Clock


def verdict(name: str = "p", outcome: Outcome = Outcome.SAME, **more: Any) -> Verdict:
    key = f"default/{name}"
    return Verdict(key, f"default/Job/{name}", 0.0, outcome, Theirs("n1"), Ours("n2"), **more)


@pytest.fixture
def tally() -> Tally:
    return Tally(100, Clock())


def test_sums_are_by_outcome_owner_and_plugin(tally: Tally) -> None:
    scores = {"Fit": (80, 20), "Spread": (0, 10)}
    better = {"plugin": "Fit", "difference": 50, "scores": scores}
    tally.add(verdict("a"))
    tally.add(verdict("b", Outcome.BETTER, **better))
    tally.add(verdict("b", Outcome.INFEASIBLE, plugin="Fit"))
    assert (tally.compared, tally.agreed, tally.difference) == (3, 1, 50)
    assert tally.owners["default/Job/b"] == {Outcome.BETTER: 1, Outcome.INFEASIBLE: 1}
    fit, spread = tally.plugins["Fit"], tally.plugins["Spread"]
    assert (fit.prefers, fit.points, fit.rejects, spread.points) == (1, 60, 1, -10)


def test_what_is_excused_counts_for_nothing(tally: Tally) -> None:
    tally.add(verdict("a", Outcome.BETTER, plugin="Fit", excused=NotCompared.IN_FLIGHT))
    assert (tally.compared, tally.not_compared) == (0, {NotCompared.IN_FLIGHT: 1})
    assert not tally.plugins
    assert not list(tally.differences())


def test_memory_is_bounded() -> None:
    tally = Tally(10, Clock())
    for number in range(MOST_OWNERS + 50):
        tally.add(verdict(f"p{number}", Outcome.BETTER))
    assert len(tally.owners) == MOST_OWNERS + 1
    assert tally.owners[OTHERS].total() == 50
    assert len(list(tally.differences())) == 10
    assert tally.of_pod("default/p0") == []
    assert len(tally.of_pod(f"default/p{MOST_OWNERS + 49}")) == 1


def test_decisions_that_are_passed_over_are_spans_in_time() -> None:
    clock = Clock()
    tally = Tally(10, clock)
    for name, pause in (("a", 1), ("b", 100), ("c", 0)):
        tally.skip(name, NotCompared.BEHIND)
        clock.time += pause
    tally.skip("d", NotCompared.GROUP)
    assert [(one.first, one.last, one.count) for one in tally.skipped] == [
        ("a", "b", 2),
        ("c", "c", 1),
        ("d", "d", 1),
    ]


@pytest.mark.parametrize(
    ("compared", "agreed", "unknown", "text"),
    [
        (0, 0, 0, "nothing was compared yet"),
        (10, 10, 0, "10 of 10 decisions are alike (100.00%)"),
        (100_000, 99_999, 0, "99,999 of 100,000 decisions are alike (99.99%)"),
        (10, 10, 10, "10 of 10 decisions are alike (at least 50.00%)"),
    ],
)
def test_the_share_of_what_is_alike_is_never_too_high(
    compared: int, agreed: int, unknown: int, text: str
) -> None:
    left_out = {"notCompared": {"notChecked": unknown}} if unknown else {}
    assert agreement({"compared": compared, "agreed": agreed} | left_out) == text


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        del attrs
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def differing() -> Followed:
    followed = Followed(PACKING)
    followed.add(node("n1"), node("n2"), pod("there", 2).node("n1"))
    one = pod("p").owner("ReplicaSet", "web")
    followed.show(one)
    followed.bind(one, "n2")
    followed.follow()
    cache = followed.cluster.world.cache
    for _ in range(3):
        followed.tally.measure(measures_of(cache.nodes, cache.pods()))
        followed.cluster.clock.time += 60
    return followed


def test_the_report_has_everything_and_is_plain_data() -> None:
    followed = differing()
    document = report(followed.shadow, followed.cluster.clock())
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
    assert (document["compared"], document["agreed"]) == (1, 0)
    assert document["owners"][0] == {
        "owner": "default/ReplicaSet/web",
        "compared": 1,
        "differ": 1,
        "outcomes": {"better": 1},
    }
    [difference] = document["differences"]
    assert (difference["there"]["node"], difference["here"]["node"]) == ("n2", "n1")
    assert len(document["measures"]) == 3


def test_the_page_is_one_file_without_scripts_and_escapes_what_others_wrote() -> None:
    followed = differing()
    document = report(followed.shadow, followed.cluster.clock())
    document["differences"][0]["sentence"] = "<script>alert(1)</script>"
    shown = _Page()
    shown.feed(page.render(document).decode())
    assert not shown.tags & {"script", "link", "img", "iframe"}
    assert "<script>alert(1)</script>" in shown.text
    assert "NodeResourcesFit" in shown.text
    assert "polyline" in shown.tags


def test_measures_of_a_week_are_thinned_and_end_with_the_last() -> None:
    followed = Followed()
    cache = followed.cluster.world.cache
    for _ in range(1_000):
        followed.tally.measure(measures_of(cache.nodes, cache.pods()))
        followed.cluster.clock.time += 60
    shown = report(followed.shadow, followed.cluster.clock())["measures"]
    assert 100 < len(shown) <= MOST_SHOWN
    assert shown[-1]["time"] == "1970-01-01T16:55:40Z"


def test_an_answer_about_a_pod_shows_both_nodes_with_their_scores() -> None:
    followed = differing()
    shown = answer(followed.tally.of_pod("default/p"))
    assert [one["node"] for one in shown["now"]["best"]] == ["n1", "n2"]
    assert shown["sentence"].startswith("default/p: n2 there, n1 here, which scores")
