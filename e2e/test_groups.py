"""Groups on a real API server: all of the minimum gets nodes, or none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

LABEL = "scheduling.x-k8s.io/pod-group"
CRD = ROOT / "deploy" / "crds" / "podgroups.yaml"
EXAMPLE = ROOT / "examples" / "groups" / "gang.yaml"
MULTI_POINT = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}


@pytest.fixture
def bayplan(
    cluster: Cluster, start: Callable[..., Bayplan], request: pytest.FixtureRequest
) -> Iterator[Bayplan]:
    """A scheduler with Coscheduling, and the CRD; no PodGroup is left behind."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    name = getattr(request, "param", OTHER)
    profile = {"schedulerName": name, "plugins": {"multiPoint": MULTI_POINT}}
    yield start(cluster.config(profiles=[profile]))
    cluster.kubectl("delete", "jobs,podgroups", "--all", namespace=cluster.namespace)


def create_group(cluster: Cluster, name: str, minimum: int, **annotations: str) -> None:
    """Make a PodGroup; ``annotations`` of bayplan.dev, with underscores."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "annotations": {
                f"bayplan.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
            },
        },
        "spec": {"minMember": minimum},
    }
    cluster.put(group)


def members(group: str, number: int, first: int = 0, sub_group: str = "") -> list[Json]:
    """Pods of a group, of one CPU each, called GROUP-0 and so on or GROUP-SUB_GROUP-0."""
    labels = {LABEL: group}
    if sub_group:
        labels["bayplan.dev/sub-group"] = sub_group
        name = f"{group}-{sub_group}"
    else:
        name = group
    return [pod(f"{name}-{i}", OTHER, labels, cpu="1") for i in range(first, first + number)]


def notes(cluster: Cluster, group: str, kind: str = "PodGroup") -> list[str]:
    """What was said of a PodGroup, or of what a group is inferred from."""
    field = f"--field-selector=involvedObject.name={group},involvedObject.kind={kind}"
    found = cluster.kubectl("get", "events", field, "-o=json", namespace=cluster.namespace)
    return [event["message"] for event in json.loads(found)["items"]]


def wait_note(cluster: Cluster, group: str, text: str, kind: str = "PodGroup") -> None:
    """Wait until that was said of the PodGroup, or of an object of another kind."""
    wait_until(lambda: any(text in n for n in notes(cluster, group, kind)), SOON, f"event {text}")


def short_by_cpu(cluster: Cluster) -> str:
    """The cause, which is not named where others have nodes with free CPUs, though cordoned."""
    return "" if cluster.others else ", short by cpu"


def no_room(cluster: Cluster, fit: int, of: int) -> str:
    """What is said of a group that is short of CPU."""
    return f"NoRoom: at most {fit} of {of} fit{short_by_cpu(cluster)}"


def bound(cluster: Cluster, group: str) -> set[str]:
    """The Pods of a group that have a node."""
    pods = cluster.pods().items()
    return {n for n, p in pods if n.startswith(f"{group}-") and p["spec"].get("nodeName")}


def test_a_group_that_fits_is_bound_and_one_that_does_not_holds_nothing(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(NodeSpec("g1", cpu="4"), NodeSpec("g2", cpu="4"))
    create_group(cluster, "fits", 6)
    create_group(cluster, "big", 6)
    fits, big = members("fits", 6), members("big", 6)
    cluster.create(*fits)
    cluster.wait_bound(*(p["metadata"]["name"] for p in fits))
    wait_note(cluster, "fits", "Bound: 6 Pods, of which 6 are needed")

    cluster.create(*big)
    wait_note(cluster, "big", no_room(cluster, 2, 6))
    text = f"the group {cluster.namespace}/big does not fit at once{short_by_cpu(cluster)}"
    cluster.wait_condition("big-3", text=text)
    assert bound(cluster, "big") == set()
    # Smaller ones go on.
    cluster.create(pod("small", OTHER, cpu="1"))
    cluster.wait_bound("small")

    for one in fits:
        cluster.delete(one["metadata"]["name"])
    cluster.wait_bound(*(p["metadata"]["name"] for p in big))
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.usefixtures("bayplan")
def test_of_two_groups_with_room_for_one_the_other_waits_as_a_whole(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("g1", cpu="5"))
    for name in ("a", "b"):
        create_group(cluster, name, 4)
    pairs = zip(members("a", 4), members("b", 4), strict=True)
    cluster.create(*(one for pair in pairs for one in pair))

    def one_is_whole() -> bool:
        return sorted(len(bound(cluster, name)) for name in ("a", "b")) == [0, 4]

    wait_until(one_is_whole, SOON, "one group bound")
    loser = "a" if not bound(cluster, "a") else "b"
    wait_note(cluster, loser, "NoRoom: at most 1 of 4 fit")
    assert one_is_whole()
    for name in bound(cluster, "a" if loser == "b" else "b"):
        cluster.delete(name)
    cluster.wait_bound(*(f"{loser}-{i}" for i in range(4)))


@pytest.mark.usefixtures("bayplan")
def test_a_group_made_after_its_pods_wakes_them_and_a_lost_pod_is_replaced(
    cluster: Cluster,
) -> None:
    cluster.nodes(NodeSpec("g1", cpu="8"))
    cluster.create(*members("late", 3))
    cluster.create(pod("alone", OTHER, cpu="1"))
    cluster.wait_bound("alone")
    assert bound(cluster, "late") == set()
    create_group(cluster, "late", 3)
    cluster.wait_bound("late-0", "late-1", "late-2")
    cluster.delete("late-1")
    cluster.create(*members("late", 1, first=7))
    cluster.wait_bound("late-7")


@pytest.mark.usefixtures("bayplan")
def test_a_deleted_member_is_missed_before_the_group_is_placed(cluster: Cluster) -> None:
    create_group(cluster, "g", 3)
    cluster.nodes(NodeSpec("g1", cpu="2"))
    cluster.create(*members("g", 3))
    wait_note(cluster, "g", "NoRoom: at most 2 of 3 fit")
    cluster.delete("g-0")
    cluster.nodes(NodeSpec("g2", cpu="8"))
    wait_note(cluster, "g", "WaitingForMembers 2/3")
    assert bound(cluster, "g") == set()
    cluster.create(*members("g", 1, first=3))
    cluster.wait_bound("g-1", "g-2", "g-3")


def racks(**sizes: int) -> list[NodeSpec]:
    """So many nodes of one CPU in each rack."""
    return [
        NodeSpec(f"{rack}-{i}", cpu="1", labels={"example.com/rack": rack})
        for rack, size in sizes.items()
        for i in range(size)
    ]


def racks_of(cluster: Cluster, group: str) -> set[str]:
    """The racks that the Pods of a group are in."""
    nodes = (p["spec"].get("nodeName", "") for n, p in cluster.pods().items() if group in n)
    return {node.partition("-")[0] for node in nodes if node}


@pytest.mark.usefixtures("bayplan")
def test_a_group_that_requires_a_rack_gets_the_tightest_and_its_late_pods_stay_there(
    cluster: Cluster,
) -> None:
    cluster.nodes(*racks(r1=5, r2=4, r3=2))
    create_group(cluster, "tight", 3, required_topology="example.com/rack")
    cluster.create(*members("tight", 3))
    cluster.wait_bound("tight-0", "tight-1", "tight-2")
    assert racks_of(cluster, "tight") == {"r2"}
    wait_note(cluster, "tight", "Bound: 3 Pods, of which 3 are needed, in example.com/rack r2")
    cluster.create(*members("tight", 2, first=3))
    text = "were outside of the group's topology domain"
    wait_until(
        lambda: text in str(cluster.pods()["tight-3"]) + str(cluster.pods()["tight-4"]),
        SOON,
        "one of two is rejected",
    )
    assert racks_of(cluster, "tight") == {"r2"}

    create_group(cluster, "wide", 6, required_topology="example.com/rack")
    cluster.create(*members("wide", 6))
    wait_note(cluster, "wide", "NoDomain: no example.com/rack holds the group: best is r1 with 5")
    assert bound(cluster, "wide") == set()
    cluster.nodes(*racks(r1=6)[5:])
    cluster.wait_bound(*(f"wide-{i}" for i in range(6)))


def test_sub_groups_get_racks_of_their_own_at_once_and_their_replacements_stay_there(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(*racks(r1=3, r2=2, r3=2))
    rack = {"requiredTopology": "example.com/rack"}
    parts: list[Json] = [
        {"name": "leader"},
        {"name": "ring-a", "minMember": 2, **rack},
        {"name": "ring-b", "minMember": 3, **rack},
    ]
    for name, number in (("leader", 1), ("ring-a", 2), ("ring-b", 2)):
        cluster.create(*members("serve", number, sub_group=name))
    create_group(cluster, "serve", 1, sub_groups=json.dumps(parts))
    wait_note(cluster, "serve", "WaitingForMembers")
    assert bound(cluster, "serve") == set()
    cluster.create(*members("serve", 1, first=2, sub_group="ring-b"))
    names = [*(f"serve-ring-a-{i}" for i in range(2)), *(f"serve-ring-b-{i}" for i in range(3))]
    cluster.wait_bound(*names, "serve-leader-0")
    assert racks_of(cluster, "ring-b") == {"r1"}
    (home,) = racks_of(cluster, "ring-a")
    wait_note(cluster, "serve", f"ring-a in example.com/rack {home}, ring-b in example.com/rack r1")

    # One more of ring-a finds its rack full, and waits for it although another one has room.
    late = members("serve", 1, first=2, sub_group="ring-a")
    cluster.create(*late)
    cluster.wait_condition("serve-ring-a-2", text="outside of the group's topology domain")
    cluster.delete("serve-ring-a-0")
    cluster.wait_bound("serve-ring-a-2")
    assert racks_of(cluster, "ring-a") == {home}
    # Nothing of a group is bound whose third sub-group has no rack.
    parts[2]["minMember"] = 4
    create_group(cluster, "wide", 1, sub_groups=json.dumps(parts))
    cluster.create(
        *members("wide", 1, sub_group="leader"),
        *members("wide", 2, sub_group="ring-a"),
        *members("wide", 4, sub_group="ring-b"),
    )
    wait_note(cluster, "wide", "NoRoom: at most 1 of 7 fit")
    assert bound(cluster, "wide") == set()
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.usefixtures("bayplan")
@pytest.mark.parametrize(
    ("annotations", "second", "text"),
    [
        pytest.param(
            {"required_topology": "example.com/rak"}, {}, "BadTopology: no node", id="level"
        ),
        pytest.param(
            {},
            {"priorityClassName": "system-cluster-critical"},
            "UnequalPriorities: its Pods have the priorities 0 and 2000000000",
            id="priority",
        ),
        pytest.param({}, {"schedulingGates": [{"name": "a.b/c"}]}, "Members 1/2", id="minimum"),
        pytest.param(
            {"sub_groups": '[{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]'},
            {},
            "BadPodGroup: bayplan.dev/sub-groups: the parents go in a cycle: a > b > a",
            id="cycle",
        ),
        pytest.param(
            {"sub_groups": '[{"name": "a", "minMember": 3}]'},
            {},
            "/3, a 0/3",
            id="sub-group",
        ),
    ],
)
def test_what_is_wrong_with_a_group_is_said_on_it(
    cluster: Cluster, annotations: dict[str, str], second: Json, text: str
) -> None:
    cluster.nodes(NodeSpec("g1", cpu="4"))
    create_group(cluster, "wrong", 2, **annotations)
    pods = members("wrong", 2)
    pods[1]["spec"] |= second
    cluster.create(*pods)
    wait_note(cluster, "wrong", text)
    cluster.create(pod("beside", OTHER, cpu="1"))
    cluster.wait_bound("beside")
    assert bound(cluster, "wrong") == set()


def test_a_group_of_the_cluster_is_explained_from_what_kubectl_prints(
    cluster: Cluster, bayplan: Bayplan, tmp_path: Path
) -> None:
    cluster.nodes(NodeSpec("g1", cpu="2"))
    create_group(cluster, "waits", 3)
    cluster.create(*members("waits", 3))
    wait_note(cluster, "waits", no_room(cluster, 2, 3))
    found = cluster.kubectl("get", "nodes,pods,podgroups", "-o=yaml", namespace=cluster.namespace)
    (tmp_path / "cluster.yaml").write_text(found)
    profile = {"schedulerName": OTHER, "plugins": {"multiPoint": MULTI_POINT}}
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        )
    )
    command = ["explain", "group", f"{cluster.namespace}/waits", "-f", "cluster.yaml", "-o", "json"]
    answer = subprocess.run(
        [sys.executable, "-m", "bayplan", *command, "--config", "config.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    verdict = json.loads(answer.stdout)
    assert verdict["message"].startswith(no_room(cluster, 2, 3))
    assert len(verdict["members"]) == 3
    # Without a file the running cluster is read: the group, and a Pod of it.
    config = f"--config={tmp_path / 'config.yaml'}"
    assert cluster.explain("group", "waits", config) == verdict
    (one,) = cluster.explain("--pod=waits-1", config)
    assert one["group"] == {
        "name": f"{cluster.namespace}/waits",
        "message": verdict["message"],
    }
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


def indexed_job(name: str, parallelism: int) -> Json:
    """An indexed Job whose Pods ask for one CPU each."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {
                "spec": {
                    "schedulerName": OTHER,
                    "restartPolicy": "Never",
                    "containers": [container],
                }
            },
        },
    }


def test_an_indexed_job_is_a_group_where_groups_are_inferred(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    args = {"inferGroups": ["JobSet", "LeaderWorkerSet", "Job"]}
    profile = {
        "schedulerName": OTHER,
        "plugins": {"multiPoint": MULTI_POINT},
        "pluginConfig": [{"name": "Coscheduling", "args": args}],
    }
    bayplan = start(cluster.config(profiles=[profile]))
    cluster.nodes(NodeSpec("g1", cpu="4"))
    for name, parallelism in (("fits", 3), ("big", 4)):
        cluster.put(indexed_job(name, parallelism))
        if name == "fits":
            wait_note(cluster, "fits", "Bound: 3 Pods, of which 3 are needed", kind="Job")
    wait_note(cluster, "big", no_room(cluster, 1, 4), kind="Job")
    config = cluster.config(profiles=[profile])
    verdict = cluster.explain("group", "Job/big", f"--config={config}")
    assert verdict["message"].startswith(no_room(cluster, 1, 4))
    assert (len(bound(cluster, "fits")), len(bound(cluster, "big"))) == (3, 0)
    cluster.create(pod("small", OTHER, cpu="1"))
    cluster.wait_bound("small")

    cluster.nodes(NodeSpec("g2", cpu="4"))
    wait_note(cluster, "big", "Bound: 4 Pods, of which 4 are needed", kind="Job")
    assert len(bound(cluster, "big")) == 4
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    cluster.kubectl("delete", "jobs", "--all", namespace=cluster.namespace)


def test_what_a_dead_leader_bound_of_a_group_without_room_for_the_rest_is_given_up(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(NodeSpec("g1", cpu="2"))
    cluster.put(indexed_job("part", 3))
    wait_until(lambda: len(cluster.pods()) == 3, SOON, "the Pods of the Job")
    before = sorted(cluster.pods())
    for name in before[:2]:
        cluster.bind(name, "g1")
    profile = {
        "schedulerName": OTHER,
        "plugins": {"multiPoint": MULTI_POINT},
        "pluginConfig": [
            {
                "name": "Coscheduling",
                "args": {"inferGroups": ["Job"], "evictIncompleteAfter": "5s"},
            }
        ],
    }
    bayplan = start(cluster.config(profiles=[profile]))
    text = "2 of 3 Pods have had nodes for 5s; they are evicted, to wait with the others"
    wait_note(cluster, "part", text, kind="Job")
    wait_note(cluster, "part", no_room(cluster, 2, 3), kind="Job")
    after = cluster.pods()
    assert {name for name in before if name in after} == {before[2]}
    assert bound(cluster, "part") == set()

    cluster.nodes(NodeSpec("g2", cpu="1"))
    wait_note(cluster, "part", "Bound: 3 Pods, of which 3 are needed", kind="Job")
    assert bayplan.metric("bayplan_plugin_events_total", name="evicted_of_incomplete_groups") == 2
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    cluster.kubectl("delete", "jobs", "--all", namespace=cluster.namespace)


@pytest.mark.usefixtures("bayplan")
@pytest.mark.parametrize("bayplan", ["bayplan"], indirect=True)
def test_the_example_of_the_guide_is_placed(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("g1", cpu="8"))
    cluster.apply(EXAMPLE)
    wait_note(cluster, "gang", "Bound: 4 Pods, of which 4 are needed")
    assert len(bound(cluster, "gang")) == 4
