"""PodGroups of Kubernetes on a real API server that has the gates of groups."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference
from e2e.refusals import allow_bindings, refuse_bindings

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not is_reference(), reason=OTHER_KUBE_SCHEDULER),
]

GATE = "--feature-gates=GenericWorkload=true"
GATES = f"{GATE},TopologyAwareWorkloadScheduling=true"
TREES = f"{GATES},CompositePodGroup=true"
QUIET = 5.0
"""Seconds in which a binding that is sent again at once would be refused hundreds of times."""
SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"


@pytest.fixture(scope="module")
def workload_cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A control plane that serves PodGroups and CompositePodGroups."""
    with ExitStack() as stack:
        yield new_cluster(stack, TREES, SERVED)


@pytest.fixture(params=[GATE])
def bayplan(workload_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Bayplan]:
    """A scheduler with the gate, or others as a parameter; no Pod is left behind."""
    cluster = workload_cluster
    running = cluster.bayplan(cluster.config(OTHER), flags=[request.param])
    running.start()
    yield running
    running.stop(grace=60)
    cluster.clear()


def create_gang(
    cluster: Cluster, name: str, minimum: int, level: str = "", parent: str = ""
) -> None:
    """Make a PodGroup with the policy gang, in one domain of the node label ``level``."""
    group: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }
    if level:
        group["spec"]["schedulingConstraints"] = {"topology": [{"key": level}]}
    if parent:
        reference = {"workloadName": "tree", "templateName": name}
        group["spec"] |= {"parentCompositePodGroupName": parent, "workloadRef": reference}
    cluster.put(group)


def create_composite(cluster: Cluster, name: str, minimum: int, level: str) -> None:
    """Make a CompositePodGroup that needs so many groups in one domain of ``level``."""
    spec: Json = {
        "workloadRef": {"workloadName": "tree", "templateName": name},
        "schedulingPolicy": {"gang": {"minGroupCount": minimum}},
        "schedulingConstraints": {"topology": [{"key": level}]},
    }
    version, meta = "scheduling.k8s.io/v1alpha3", {"name": name}
    group = {"apiVersion": version, "kind": "CompositePodGroup", "metadata": meta, "spec": spec}
    cluster.put(group)


def members(group: str, number: int) -> list[Json]:
    """Pods of a group, of one CPU each."""
    made = [pod(f"{group}-{i}", OTHER, cpu="1") for i in range(number)]
    for each in made:
        each["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def condition(cluster: Cluster, group: str) -> tuple[str, str, str]:
    """Status, reason and message of PodGroupInitiallyScheduled; empty for none."""
    kind = "podgroups.v1beta1.scheduling.k8s.io"
    found = json.loads(cluster.kubectl("get", kind, group, "-o=json", namespace=cluster.namespace))
    for said in found.get("status", {}).get("conditions", []):
        if said["type"] == "PodGroupInitiallyScheduled":
            return said["status"], said["reason"], said["message"]
    return "", "", ""


def beginnings(cluster: Cluster, group: str, texts: list[str]) -> list[str]:
    """Which of ``texts`` the conditions of a group's Pods contain, each Pod the first one."""
    pods = (name for name in cluster.pods() if name.startswith(f"{group}-"))
    messages = [cluster.condition(name).get("message", "") for name in pods]
    order = ("pod group is unschedulable", *texts)
    return sorted(next((t for t in order if t in message), "") for message in messages)


def test_a_gang_is_bound_as_a_whole_and_one_that_does_not_fit_is_told_why(
    workload_cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster = workload_cluster
    cluster.nodes(NodeSpec("g1", cpu="4"), NodeSpec("g2", cpu="4"))
    create_gang(cluster, "fits", 5)
    create_gang(cluster, "big", 5)
    fits, big = members("fits", 5), members("big", 5)
    cluster.create(*fits)
    cluster.wait_bound(*(each["metadata"]["name"] for each in fits))
    wait_until(lambda: condition(cluster, "fits")[:2] == ("True", "Scheduled"), SOON, "condition")

    cluster.create(*big)
    text = "minCount (5) cannot be satisfied: 3 scheduled"
    wait_until(lambda: text in condition(cluster, "big")[2], SOON, "condition")
    assert condition(cluster, "big")[:2] == ("False", "Unschedulable")
    # Three fit, the fourth does not, and the fifth is not tried any more.
    said = ["Insufficient cpu", "minCount (5)", *["pod group is unschedulable"] * 3]
    wait_until(lambda: beginnings(cluster, "big", said) == said, SOON, "conditions of the Pods")
    assert not any(cluster.node_of(each["metadata"]["name"]) for each in big)
    verdict = cluster.explain("group", "big", f"--config={cluster.config(OTHER)}", GATE)
    assert verdict["message"] == "{} {}: {}".format(*condition(cluster, "big"))
    assert len(verdict["rejected"]) == 5

    for each in fits:
        cluster.delete(each["metadata"]["name"])
    cluster.wait_bound(*(each["metadata"]["name"] for each in big))
    wait_until(lambda: condition(cluster, "big")[:2] == ("True", "Scheduled"), SOON, "condition")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_the_next_leader_completes_a_gang_in_whose_middle_the_first_was_killed(
    workload_cluster: Cluster,
) -> None:
    cluster = workload_cluster
    cluster.nodes(NodeSpec("g1", cpu="5"))
    create_gang(cluster, "killed", 5)
    pods = members("killed", 5)
    names = [each["metadata"]["name"] for each in pods]
    slowly = {"qps": 0.4, "burst": 1}
    with ExitStack() as stack:
        first = cluster.bayplan(cluster.config(OTHER, clientConnection=slowly), flags=[GATE])
        stack.callback(first.kill)
        first.start()
        cluster.create(*pods)
        wait_until(lambda: any(map(cluster.node_of, names)), SOON, "one is bound")
        first.kill()
        held = {name for name in names if cluster.node_of(name)}
        second = cluster.bayplan(cluster.config(OTHER), flags=[GATE])
        stack.callback(second.kill)
        second.start()
        cluster.wait_bound(*names)
        assert 0 < len(held) < 5, "the leader was not killed in the middle"
        wait_until(lambda: condition(cluster, "killed")[0] == "True", SOON, "condition")
        wait_until(second.holds_what_the_api_server_has, SOON, "no difference")
    cluster.clear()


@pytest.mark.parametrize("bayplan", [GATES], indirect=True)
def test_a_gang_with_a_topology_constraint_is_kept_in_one_domain(
    workload_cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster, level = workload_cluster, "example.com/rack"
    racks = {"t1": "r1", "t2": "r1", "t3": "r2", "t4": "r2"}
    cpu = {"r1": "1", "r2": "2"}
    cluster.nodes(
        *(NodeSpec(name, cpu=cpu[rack], labels={level: rack}) for name, rack in racks.items())
    )
    create_gang(cluster, "rack", 3, level)
    create_gang(cluster, "wide", 3, level)
    rack, wide = members("rack", 3), members("wide", 3)
    cluster.create(*rack)
    names = [each["metadata"]["name"] for each in rack]
    cluster.wait_bound(*names)
    assert {racks[cluster.node_of(name)] for name in names} == {"r2"}
    # One place is left in r2 and two are in r1: three in all, but not in one rack.
    cluster.create(*wide)
    text = "0/2 placements are available, first placement status: minCount (3) cannot be satisfied"
    wait_until(lambda: text in condition(cluster, "wide")[2], SOON, "condition")
    assert not any(cluster.node_of(each["metadata"]["name"]) for each in wide)

    for name in names:
        cluster.delete(name)
    names = [each["metadata"]["name"] for each in wide]
    cluster.wait_bound(*names)
    assert {racks[cluster.node_of(name)] for name in names} == {"r2"}
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.parametrize("bayplan", [TREES], indirect=True)
def test_a_tree_of_groups_is_bound_in_one_domain_when_all_of_it_is_there(
    workload_cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster, zone, rack = workload_cluster, "example.com/zone", "example.com/rack"
    # The zone z1 has as many places, but no two racks of two.
    places = {"c1": ("z1", "r1", "3"), "c2": ("z1", "r2", "1")}
    places |= {"c3": ("z2", "r3", "2"), "c4": ("z2", "r4", "2")}
    cluster.nodes(
        *(NodeSpec(n, cpu=cpu, labels={zone: z, rack: r}) for n, (z, r, cpu) in places.items())
    )
    names = [cluster.create(*members(ring, 2)) for ring in ("ring-a", "ring-b")]
    create_gang(cluster, "ring-a", 2, rack, parent="tree")
    create_gang(cluster, "ring-b", 2, rack, parent="tree")
    time.sleep(QUIET / 2)
    assert not any(cluster.node_of(name) for ring in names for name in ring)

    create_composite(cluster, "tree", 2, zone)
    cluster.wait_bound(*(name for ring in names for name in ring))
    racks = [{places[cluster.node_of(name)][1] for name in ring} for ring in names]
    assert racks in ([{"r3"}, {"r4"}], [{"r4"}, {"r3"}])

    def said() -> set[tuple[str, ...]]:
        return {condition(cluster, ring)[:2] for ring in ("ring-a", "ring-b")}

    wait_until(lambda: said() == {("True", "Scheduled")}, SOON, "conditions")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.fixture
def _refusal(workload_cluster: Cluster) -> Iterator[None]:
    """Every binding to the node g1 is refused."""
    refuse_bindings(workload_cluster, "object.target.name != 'g1'", node="g1")
    yield
    allow_bindings(workload_cluster)


@pytest.mark.usefixtures("_refusal")
def test_bindings_that_are_refused_are_not_sent_again_and_again(
    workload_cluster: Cluster, bayplan: Bayplan
) -> None:
    """There is room for one of two Pods: the other one waits beside it for that room."""
    cluster = workload_cluster
    cluster.nodes(NodeSpec("g1", cpu="1"))
    create_gang(cluster, "refused", 1)
    pods = members("refused", 2)
    names = cluster.create(*pods)
    failures = "Error scheduling pod; retrying"
    wait_until(lambda: bayplan.lines(failures), SOON, "the first binding to be refused")
    time.sleep(QUIET)
    # Backoffs of 1, 2 and 4 seconds for each Pod.
    assert len(bayplan.lines(failures)) <= 8
    allow_bindings(cluster)
    wait_until(lambda: any(map(cluster.node_of, names)), SOON, "one of them bound")
