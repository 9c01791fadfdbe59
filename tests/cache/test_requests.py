"""What a Pod takes: containers, init containers, sidecars, overhead, Pod level, resize."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from bayplan.api.pod import PodStatus
from bayplan.cache.requests import exact_requests, pod_requests
from bayplan.testing import Json, PodBuilder, make_pod

MI = 1 << 20
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = INFEASIBLE | {"reason": "Deferred"}


def state(name: str, actual: Json | None, allocated: Json | None = None) -> Json:
    """A container status: what runs (None: not told), and what was allocated."""
    resources: Json = {} if actual is None else {"resources": {"requests": actual}}
    return {"name": name, "allocatedResources": allocated or {}, **resources}


@pytest.mark.parametrize(
    ("pod", "amounts"),
    [
        pytest.param(make_pod(), {}, id="nothing"),
        pytest.param(make_pod().req(cpu="0"), {"cpu": 0}, id="zero is asked for"),
        pytest.param(
            make_pod().req(cpu="100m", memory="1Mi").req(cpu="1"),
            {"cpu": 1100, "memory": MI},
            id="containers add up",
        ),
        pytest.param(
            make_pod().req(cpu="1").init_req(cpu="3").init_req(cpu="2"),
            {"cpu": 3000},
            id="the largest init container",
        ),
        pytest.param(
            make_pod().req(cpu="1", memory="5Mi").init_req(cpu="3", memory="2Mi"),
            {"cpu": 3000, "memory": 5 * MI},
            id="each resource by itself",
        ),
        pytest.param(
            make_pod().req(cpu="1").sidecar_req(cpu="2"), {"cpu": 3000}, id="sidecars add up"
        ),
        pytest.param(
            make_pod().req(cpu="1").sidecar_req(cpu="2").init_req(cpu="5"),
            {"cpu": 7000},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            make_pod().req(cpu="1").init_req(cpu="5").sidecar_req(cpu="2"),
            {"cpu": 5000},
            id="but not beside those after it",
        ),
        pytest.param(
            make_pod().sidecar_req(cpu="2").init_req(memory="1Mi"),
            {"cpu": 2000, "memory": MI},
            id="no container at all",
        ),
        pytest.param(
            make_pod().req(cpu="1").overhead(cpu="250m", memory="1Mi"),
            {"cpu": 1250, "memory": MI},
            id="overhead",
        ),
        pytest.param(
            make_pod().req(cpu="1", memory="3Mi").pod_level(cpu="5").overhead(cpu="1"),
            {"cpu": 6000, "memory": 3 * MI},
            id="the Pod level replaces the sum, overhead comes on top",
        ),
        pytest.param(
            make_pod().req({"hugepages-2Mi": "2Mi", "x/y": 1}).pod_level({"hugepages-2Mi": "4Mi"}),
            {"hugepages-2Mi": 4 * MI, "x/y": 1},
            id="huge pages at Pod level",
        ),
        pytest.param(
            make_pod().req({"x/y": 1}).pod_level({"x/y": 5}),
            {"x/y": 1},
            id="no extended resources at Pod level",
        ),
        pytest.param(
            make_pod().req(cpu="100u").req(cpu="100u"),
            {"cpu": 1},
            id="rounded up after adding",
        ),
        pytest.param(make_pod().req(memory="1500m"), {"memory": 2}, id="bytes are rounded up"),
        pytest.param(make_pod().req({"x/y": "3"}), {"x/y": 3}, id="extended resources"),
    ],
)
def test_a_pod_that_is_not_resized(pod: PodBuilder, amounts: dict[str, int]) -> None:
    assert pod_requests(pod.obj()).amounts == amounts


@pytest.mark.parametrize(
    ("status", "conditions", "cpu"),
    [
        pytest.param(state("c1", None, {"cpu": "9"}), [], 9000, id="allocated, and no word yet"),
        pytest.param(state("c1", {"cpu": "1"}), [], 2000, id="growing counts at once"),
        pytest.param(state("c1", {"cpu": "3"}), [], 3000, id="shrinking counts when it is done"),
        pytest.param(state("c1", {"cpu": "1"}, {"cpu": "4"}), [], 4000, id="what was allocated"),
        pytest.param(state("c1", {"cpu": "1"}), [DEFERRED], 2000, id="deferred"),
        pytest.param(state("c1", {"cpu": "1"}), [INFEASIBLE], 1000, id="infeasible"),
        pytest.param(
            state("c1", {"cpu": "1"}, {"cpu": "1500m"}), [INFEASIBLE], 1500, id="infeasible, both"
        ),
        pytest.param(
            state("c1", {"cpu": "1"}), [DEFERRED, INFEASIBLE], 2000, id="the first condition counts"
        ),
        pytest.param(state("other", {"cpu": "9"}), [], 2000, id="of another container"),
    ],
)
def test_a_container_that_is_resized(status: Json, conditions: list[Json], cpu: int) -> None:
    pod = make_pod().req(cpu="2").status(containerStatuses=[status], conditions=conditions)
    assert pod_requests(pod.obj()).amounts["cpu"] == cpu


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(make_pod().sidecar_req(cpu="2"), 3000, id="a sidecar counts as it runs"),
        pytest.param(make_pod().init_req(cpu="2"), 3000, id="and so does an init container"),
    ],
)
def test_init_containers_that_are_resized(pod: PodBuilder, cpu: int) -> None:
    pod.status(initContainerStatuses=[state("i1", {"cpu": "3"})])
    assert pod_requests(pod.obj()).amounts["cpu"] == cpu


@pytest.mark.parametrize("granted", [{}, {"cpu": "2"}])
def test_the_largest_sum_counts_not_the_sum_of_the_largest(granted: Json) -> None:
    pod = make_pod().req(cpu="3").req(cpu="1")
    states = [state("c1", {"cpu": "1"}, {"cpu": "1"}), state("c2", {"cpu": "2"}, granted)]
    assert pod_requests(pod.status(containerStatuses=states).obj()).amounts["cpu"] == 4000


def test_the_kubelet_reports_the_sums_of_a_whole_pod() -> None:
    whole: Json = {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "6"}}}
    pod = make_pod().req(cpu="2").req(cpu="1")
    pod.status(containerStatuses=[state("c1", {"cpu": "9"})], **whole)
    assert pod_requests(pod.obj()).amounts["cpu"] == 6000


@pytest.mark.parametrize("told", [[], [{"name": "c1"}], [state("c1", {"memory": "1Mi"})]])
def test_a_container_without_a_word_takes_nothing_of_an_infeasible_resize(told: list[Json]) -> None:
    pod = make_pod().req(cpu="2").status(containerStatuses=told, conditions=[INFEASIBLE])
    assert pod_requests(pod.obj()).amounts.get("cpu", 0) == 0


@pytest.mark.parametrize(
    ("status", "conditions", "cpu"),
    [
        pytest.param({"allocatedResources": {"cpu": "9"}}, [], 5000, id="not told"),
        pytest.param({"resources": {"requests": {"cpu": "7"}}}, [], 7000, id="shrinking"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, [INFEASIBLE], 3000, id="refused"),
        pytest.param(
            {"allocatedResources": {"cpu": "7"}, "resources": {"requests": {"cpu": "2"}}},
            [INFEASIBLE],
            7000,
            id="refused, and more is allocated than runs",
        ),
    ],
)
def test_a_pod_level_that_is_resized(status: Json, conditions: list[Json], cpu: int) -> None:
    pod = make_pod().req(cpu="1").pod_level(cpu="5").status(**status, conditions=conditions)
    assert pod_requests(pod.obj()).amounts["cpu"] == cpu


@pytest.mark.parametrize(
    ("pod", "cpu", "memory"),
    [
        pytest.param(make_pod(), 0, 0, id="no container"),
        pytest.param(make_pod().container(), 100, 200 * MI, id="nothing asked"),
        pytest.param(make_pod().req(cpu="0", memory="0"), 0, 0, id="zero asked"),
        pytest.param(make_pod().req(cpu="1").container(), 1100, 400 * MI, id="each by itself"),
        pytest.param(make_pod().container().init_req(cpu="1"), 1000, 200 * MI, id="init"),
        pytest.param(
            make_pod().req(cpu="1", memory="1Mi").init_req(cpu="2"), 2000, 200 * MI, id="init only"
        ),
        pytest.param(make_pod().req(memory="1Mi"), 100, MI, id="one of them"),
        pytest.param(make_pod().container().pod_level(cpu="1"), 1000, 200 * MI, id="Pod level cpu"),
        pytest.param(
            make_pod().container().pod_level(cpu="1", memory="1Mi"), 1000, MI, id="Pod level both"
        ),
        pytest.param(make_pod().container().overhead(cpu="1"), 1100, 200 * MI, id="overhead"),
    ],
)
def test_what_scoring_counts_for_containers_that_ask_for_nothing(
    pod: PodBuilder, cpu: int, memory: int
) -> None:
    requests = pod_requests(pod.obj())
    assert (requests.nonzero_cpu, requests.nonzero_memory) == (cpu, memory)


def test_siblings_share_what_was_worked_out() -> None:
    one, two = make_pod("a").req(cpu="1").obj(), make_pod("b").req(cpu="1").obj()
    assert pod_requests(one) is pod_requests(two)
    resized = make_pod("a").req(cpu="1").status(containerStatuses=[state("c1", {"cpu": "2"})]).obj()
    assert resized.shape is one.shape
    assert pod_requests(resized).amounts == {"cpu": 2000}
    assert pod_requests(one).amounts == {"cpu": 1000}


@pytest.mark.parametrize(("pod_level", "cpu"), [(True, 5), (False, 1)])
def test_the_pod_level_may_be_left_out(pod_level: bool, cpu: int) -> None:
    spec = make_pod().req(cpu="1").pod_level(cpu="5").obj().spec
    exact: dict[str, Any] = exact_requests(spec, PodStatus(), {}, pod_level=pod_level)
    assert exact == {"cpu": Fraction(cpu)}


def test_a_pod_that_runs_with_what_it_asked_for_shares_the_requests_of_its_size() -> None:
    state = {"name": "c1", "resources": {"requests": {"cpu": "1"}}}
    running = make_pod("p").req(cpu="1").status(containerStatuses=[state]).obj()
    resized = {"name": "c1", "resources": {"requests": {"cpu": "2"}}}
    larger = make_pod("q").req(cpu="1").status(containerStatuses=[resized]).obj()
    waiting = make_pod("r").label("index", "1").req(cpu="1").obj()
    assert running.spec.containers[0].name == "c1"
    assert pod_requests(running) is pod_requests(waiting)
    assert pod_requests(larger).amounts == {"cpu": 2000}
