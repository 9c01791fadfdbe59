"""What a Pod takes of its quota, and how amounts are compared."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.plugins.capacity_scheduling.amounts import (
    UNLIMITED,
    Amounts,
    exceeds,
    request,
    room,
)
from bayplan.testing import make_pod


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"containers": [{"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"}]},
            {"cpu": 1500, "memory": 2**30},
            id="containers-add-up",
        ),
        pytest.param(
            {"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "3"}, {"memory": "1"}]},
            {"cpu": 3000, "memory": 1},
            id="an-init-container-raises-the-sum",
        ),
        pytest.param(
            {"containers": [{"cpu": "1"}], "overhead": {"cpu": "250m"}},
            {"cpu": 1250},
            id="overhead-comes-on-top",
        ),
        pytest.param(
            {"containers": [{"memory": "0.5"}, {"memory": "0.5"}]},
            {"memory": 2},
            id="each-container-is-rounded-up",
        ),
        pytest.param(
            {"containers": [{"example.com/gpu": "2", "requests.cpu": "1", "storage": "1"}]},
            {"example.com/gpu": 2},
            id="names-that-the-scheduler-does-not-count",
        ),
    ],
)
def test_what_a_pod_takes(spec: dict[str, Any], expected: Amounts) -> None:
    for kind in ("containers", "initContainers"):
        spec[kind] = [{"resources": {"requests": amounts}} for amounts in spec.get(kind, [])]
    assert request(make_pod("p").spec(**spec).obj()) == expected


def test_a_sidecar_counts_as_an_init_container() -> None:
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    pod = make_pod("p").req(cpu="2").spec(initContainers=[sidecar])
    assert request(pod.obj()) == {"cpu": 2000}


CORE = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}


@pytest.mark.parametrize(
    ("limit", "used", "more", "unnamed", "expected"),
    [
        pytest.param({"cpu": 5}, {"cpu": 2}, {"cpu": 1}, 0, CORE | {"cpu": 2}, id="left"),
        pytest.param({}, {}, {"memory": 1}, 0, CORE | {"memory": -1}, id="no-memory-means-0"),
        pytest.param({}, {"gpu": 9}, {}, 0, CORE, id="only-what-is-asked-for-is-compared"),
        pytest.param({}, {}, {"gpu": 1}, 0, CORE | {"gpu": -1}, id="unnamed-minimum"),
        pytest.param(
            {}, {}, {"gpu": 1}, UNLIMITED, CORE | {"gpu": UNLIMITED - 1}, id="unnamed-maximum"
        ),
    ],
)
def test_what_a_limit_leaves(
    limit: Amounts, used: Amounts, more: Amounts, unnamed: int, expected: Amounts
) -> None:
    assert room(limit, used, more, unnamed) == expected
    assert exceeds(limit, used, more, unnamed) is (min(expected.values()) < 0)
