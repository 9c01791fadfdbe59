from __future__ import annotations

import msgspec
import pytest
from tests.plugins.harness import table_of

from bayplan.api.node import Taint
from bayplan.api.pod_spec import Toleration
from bayplan.api.tolerations import repels, tolerated, tolerates
from bayplan.plugins.shared.tolerations import repelling_taints
from bayplan.testing import make_node, make_pod

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param({"key": "k", "operator": "Equal", "value": "v"}, True, id="equal"),
        pytest.param({"key": "k", "value": "v"}, True, id="no-operator-means-equal"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="other-value"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="exists"),
        pytest.param({"key": "j", "operator": "Exists"}, False, id="other-key"),
        pytest.param({"operator": "Exists"}, True, id="every-key"),
        pytest.param({"value": "v"}, True, id="empty-key-and-equal-value"),
        pytest.param({}, False, id="empty-value-differs"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, True, id="same-effect"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="other-effect"),
        pytest.param({"key": "k", "operator": "Gt", "value": "1"}, False, id="gt-is-off"),
        pytest.param({"key": "k", "operator": "Lt", "value": "1"}, False, id="lt-is-off"),
    ],
)
def test_a_toleration_covers_a_taint_by_effect_key_operator_and_value(
    toleration: dict[str, str], expected: bool
) -> None:
    assert tolerates(msgspec.convert(toleration, Toleration), TAINT) is expected


def test_one_covering_toleration_is_enough() -> None:
    others = [Toleration(key="a", operator="Exists"), Toleration(key="b", operator="Exists")]
    assert not tolerated(TAINT, others)
    assert tolerated(TAINT, [*others, Toleration(key="k", operator="Exists")])


@pytest.mark.parametrize(
    ("effect", "expected"),
    [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("Other", False)],
)
def test_only_no_schedule_and_no_execute_repel(effect: str, expected: bool) -> None:
    assert repels([Taint(key="k", effect=effect)], []) is expected


def test_repelling_taints_are_answered_per_node() -> None:
    nodes = table_of(
        make_node("plain"), make_node("tainted").taint("k"), make_node("t2").taint("j")
    )
    pod = make_pod().toleration(key="k", operator="Exists").obj()
    answers = pod.shape.constraints.memo(repelling_taints).of(nodes.taints)
    assert [bool(answers[info.row]) for info in nodes] == [False, False, True]
