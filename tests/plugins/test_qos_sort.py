from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.harness import make
from tests.plugins.test_priority_sort import Queued

from bayplan.api.qos import QosClass, qos_class
from bayplan.plugins.qos_sort import QOSSort
from bayplan.testing import PodBuilder, make_pod

GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass
BOTH = {"cpu": "1", "memory": "1Gi"}
FULL = {"requests": BOTH, "limits": {"cpu": "1000m", "memory": "1024Mi"}}


def with_resources(*containers: Any, **spec: Any) -> PodBuilder:
    return make_pod().spec(
        containers=[{"resources": resources} for resources in containers], **spec
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(with_resources({}), BEST_EFFORT, id="nothing"),
        pytest.param(with_resources({"requests": {"cpu": "0"}}), BEST_EFFORT, id="zero-is-nothing"),
        pytest.param(
            with_resources({"limits": {"nvidia.com/gpu": "1"}}), BEST_EFFORT, id="other-resources"
        ),
        pytest.param(with_resources({"requests": {"cpu": "1"}}), BURSTABLE, id="a-request"),
        pytest.param(with_resources({"limits": {"cpu": "1"}}), BURSTABLE, id="one-limit"),
        pytest.param(with_resources(FULL), GUARANTEED, id="equal"),
        pytest.param(with_resources({"limits": BOTH}), GUARANTEED, id="limits-are-the-requests"),
        pytest.param(with_resources(FULL, {}), BURSTABLE, id="a-container-without"),
        pytest.param(
            with_resources({"requests": {"cpu": "0"}, "limits": BOTH}), BURSTABLE, id="zero-request"
        ),
        pytest.param(
            with_resources(FULL, initContainers=[{"resources": {"requests": {"cpu": "1"}}}]),
            BURSTABLE,
            id="an-init-container-counts",
        ),
        pytest.param(
            with_resources({"requests": {"cpu": "1"}}, resources=FULL), GUARANTEED, id="pod-level"
        ),
    ],
)
def test_the_class_is_that_of_the_api_server(pod: PodBuilder, expected: QosClass) -> None:
    assert qos_class(pod.obj().shape.requests) == expected


def queued(resources: Any, priority: int, timestamp: float) -> Queued:
    return Queued(with_resources(resources).priority(priority).obj(), timestamp)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(({}, 5, 2.0), (FULL, 4, 1.0), True, id="priority-before-class"),
        pytest.param((FULL, 5, 2.0), ({}, 5, 1.0), True, id="class-before-time"),
        pytest.param(({"limits": {"cpu": 1}}, 5, 2.0), ({}, 5, 1.0), True, id="burstable-first"),
        pytest.param((FULL, 5, 2.0), (FULL, 5, 1.0), False, id="time-last"),
        pytest.param((FULL, 5, 1.0), (FULL, 5, 1.0), False, id="equal"),
    ],
)
def test_pods_are_ordered_by_priority_class_and_time(
    first: tuple[Any, int, float], second: tuple[Any, int, float], expected: bool
) -> None:
    key = make(QOSSort).sort_key
    assert (key(queued(*first)) < key(queued(*second))) is expected
