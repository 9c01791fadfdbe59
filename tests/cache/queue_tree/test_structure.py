"""Queue objects as a tree, and what is said of those that are wrong."""

from __future__ import annotations

import pytest
from tests.queues import queue

from bayplan.api.kinds import NAMESPACE
from bayplan.api.meta import ObjectFault
from bayplan.api.queues import Queue
from bayplan.cache.amounts import UNLIMITED
from bayplan.cache.queue_tree.structure import MOST, Structure
from bayplan.testing import Builder, Json, make_object

SHARED = "spec.namespaceSelector: Pods of 1 namespaces belong to other queues: x to {}"


def drawn(structure: Structure) -> list[str]:
    """Each row as PARENT/NAME."""
    names = [
        f"{q.name}*" * own or q.name for q, own in zip(structure.queues, structure.own, strict=True)
    ]
    parents = ["" if p < 0 else names[p] for p in structure.parent.tolist()]
    return [f"{parent}/{name}" for parent, name in zip(parents, names, strict=True)]


def structure_of(*queues: Builder[Queue]) -> Structure:
    """The tree of these Queues."""
    return Structure(queue.obj() for queue in queues)


def test_parents_come_before_their_children() -> None:
    structure = structure_of(queue("a", parent="b"), queue("b", parent="c"), queue("c"))
    assert drawn(structure) == ["/c", "c/b", "b/a"]
    assert [chain.tolist() for chain in structure.chains] == [[0], [1, 0], [2, 1, 0]]


def test_pods_of_a_queue_with_children_have_a_row_beside_them() -> None:
    structure = structure_of(queue("a", "x", weight=5), queue("b", "y", parent="a"))
    assert drawn(structure) == ["/a", "a/b", "a/a*"]
    assert structure.weight.tolist() == [5, 1, 1]
    assert structure.rows_of("x", {}) == [2]


@pytest.mark.parametrize(
    ("queues", "faults", "rows"),
    [
        pytest.param(
            [queue("a", parent="b")],
            ["a UnknownParent spec.parent: there is no queue b"],
            ["/a"],
            id="unknown parent",
        ),
        pytest.param(
            [queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a")],
            [
                "a Cycle spec.parent: the queue is its own ancestor: a > b > a",
                "b Cycle spec.parent: the queue is its own ancestor: b > a > b",
            ],
            ["/a", "/b", "a/c"],
            id="cycle",
        ),
        pytest.param(
            [queue("a", parent="a")],
            ["a Cycle spec.parent: the queue is its own ancestor: a > a"],
            ["/a"],
            id="its own parent",
        ),
        pytest.param(
            [queue(f"q{i:02}", parent=f"q{(i + 1) % 10:02}") for i in range(10)],
            [
                f"q{i:02} Cycle spec.parent: the queue is its own ancestor: "
                + " > ".join(f"q{(i + k) % 10:02}" for k in range(8))
                + f" > ... > q{i:02}"
                for i in range(10)
            ],
            [f"/q{i:02}" for i in range(10)],
            id="long cycle",
        ),
        pytest.param(
            [queue("q00"), *(queue(f"q{i:02}", parent=f"q{i - 1:02}") for i in range(1, 19))],
            [
                f"q{i:02} TooDeep spec.parent: the queue is on level {i + 1}, trees have at most "
                "16: it counts as part of queue q14"
                for i in (16, 17, 18)
            ],
            ["/q00", *(f"q{min(i - 1, 14):02}/q{i:02}" for i in range(1, 19))],
            id="too deep",
        ),
        pytest.param(
            [
                queue("a", guaranteed={"cpu": 3}),
                queue("b", parent="a", guaranteed={"cpu": 2}),
                queue("c", parent="a", guaranteed={"cpu": "1500m", "memory": "1Gi"}),
            ],
            [
                "a GuaranteedToChildren spec.guaranteed.cpu: 3 is less than "
                "what its children are guaranteed: 3.5"
            ],
            ["/a", "a/b", "a/c"],
            id="more guaranteed to children",
        ),
        pytest.param(
            [queue("a", guaranteed={"memory": "2Gi"}, limit={"memory": "1Gi"})],
            ["a GuaranteedAboveLimit spec.guaranteed.memory: 2Gi is more than the limit: 1Gi"],
            ["/a"],
            id="guaranteed above the limit",
        ),
        pytest.param(
            [queue("a", limit={"cpu": "many"}, guaranteed={"cpu": "-1"})],
            [
                "a InvalidAmount spec.guaranteed.cpu: must not be negative",
                "a InvalidAmount spec.limit.cpu: 'many' is not a quantity "
                "(examples: 500m, 2, 1.5Gi, 1e3)",
            ],
            ["/a"],
            id="amounts",
        ),
        pytest.param(
            [queue("a", userLimit={"cpu": "x"}, userKey="a b")],
            [
                "a InvalidAmount spec.userLimit.cpu: 'x' is not a quantity "
                "(examples: 500m, 2, 1.5Gi, 1e3)",
                "a InvalidUserKey spec.userKey: 'a b' is no key of a label: nobody has one",
            ],
            ["/a"],
            id="limits of users",
        ),
        pytest.param(
            [queue("a", namespaceSelector={"matchExpressions": [{"key": "k", "operator": "Is"}]})],
            [
                'a InvalidSelector spec.namespaceSelector: "Is" is not a valid label '
                "selector operator"
            ],
            ["/a"],
            id="selector",
        ),
    ],
)
def test_faults(queues: list[Builder[Queue]], faults: list[str], rows: list[str]) -> None:
    structure = structure_of(*queues)
    assert [_shown(fault) for fault in structure.faults] == faults
    assert drawn(structure) == rows


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("1e30", "1e30 is more than can be counted"),
        ("9007199254741E", "9007199254741E is more than can be counted"),
        ("1e99999999", "1e99999999 is more than can be counted"),
        ("-1e99999999", "must not be negative"),
        ("9" * 5000, "'99999999999999999999'... (5000 characters) is not a quantity"),
        ("abc", "'abc' is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)"),
    ],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.parametrize("field", ["guaranteed", "limit"])
def test_absurd_amounts_count_as_if_they_were_not_there(
    field: str, amount: str, message: str
) -> None:
    spec: Json = {"parent": "all", field: {"cpu": amount}}
    structure = structure_of(queue("all"), *(queue(f"q{i}", **spec) for i in range(4)))
    expected = [f"q{i} InvalidAmount spec.{field}.cpu: {message}" for i in range(4)]
    assert [_shown(fault) for fault in structure.faults] == expected
    assert structure.guaranteed[:, 0].tolist() == [0] * 5
    assert structure.limit[:, 0].tolist() == [UNLIMITED] * 5


@pytest.mark.parametrize("weight", [-1, 1_000_001, 2**63 - 1])
def test_a_weight_that_the_api_server_would_refuse_counts_as_one(weight: int) -> None:
    structure = structure_of(queue("a", weight=weight), queue("b", weight=0))
    expected = f"a InvalidAmount spec.weight: {weight} is not from 0 to 1000000; it counts as 1"
    assert [_shown(fault) for fault in structure.faults] == [expected]
    assert structure.weight.tolist() == [1, 0]


def test_the_largest_amounts_add_up() -> None:
    most = {"memory": MOST}
    structure = structure_of(
        queue("all"), *(queue(f"q{i}", parent="all", guaranteed=most) for i in range(400))
    )
    assert structure.faults == []
    assert structure.guaranteed[0, 1] == 400 * MOST


def test_a_parent_that_does_not_say_guarantees_what_its_children_do() -> None:
    children = [queue(n, parent="a", guaranteed={"cpu": 2}) for n in ("b", "c")]
    structure = structure_of(queue("a"), *children)
    assert structure.guaranteed[:, 0].tolist() == [4000, 2000, 2000]
    assert structure.faults == []


def test_a_queue_that_is_not_reclaimable_borrows_nothing() -> None:
    limit = {"cpu": 4, "memory": 8}
    structure = structure_of(queue("a", reclaimable=False, guaranteed={"cpu": 2}, limit=limit))
    assert structure.limit[0].tolist() == [2000, 8]


def test_a_namespace_belongs_to_the_oldest_queue_that_selects_it() -> None:
    structure = structure_of(queue("a", "x y", created=2), queue("b", "x", created=1))
    assert [structure.name(row) for row in structure.rows_of("x", {})] == ["b", "a"]
    namespaces = [make_object(NAMESPACE, name).obj() for name in "xyz"]
    (fault,) = structure.shared_namespaces(namespaces)
    assert fault.regarding.name == "a"
    assert fault.message == SHARED.format("b")


@pytest.mark.parametrize(
    ("one", "other", "first", "is_shared"),
    [
        pytest.param({}, {"qosClasses": ["BestEffort"]}, "b", False, id="a-class-before-none"),
        pytest.param(
            {"qosClasses": ["BestEffort"]},
            {"priorityClassNames": ["low"], "qosClasses": ["Burstable"]},
            "b",
            False,
            id="two-kinds-before-one",
        ),
        pytest.param(
            {"qosClasses": ["BestEffort"]}, {"qosClasses": ["Burstable"]}, "a", False, id="disjoint"
        ),
        pytest.param(
            {"priorityClassNames": ["low", "high"]},
            {"priorityClassNames": ["high"]},
            "a",
            True,
            id="overlapping",
        ),
        pytest.param(
            {"priorityClassNames": ["low"]},
            {"qosClasses": ["Burstable"]},
            "a",
            True,
            id="of-different-kinds",
        ),
    ],
)
def test_of_a_namespace_the_queue_that_says_most_precisely_comes_first(
    one: dict[str, list[str]], other: dict[str, list[str]], first: str, is_shared: bool
) -> None:
    structure = structure_of(queue("a", "x", created=1, **one), queue("b", "x", created=2, **other))
    assert structure.name(structure.rows_of("x", {})[0]) == first
    faults = structure.shared_namespaces([make_object(NAMESPACE, "x").obj()])
    expected = [f"b NamespaceTaken {SHARED.format('a')}"] if is_shared else []
    assert [_shown(fault) for fault in faults] == expected


def _shown(fault: ObjectFault) -> str:
    return f"{fault.regarding.name} {fault.reason} {fault.message}"
