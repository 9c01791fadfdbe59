"""A plan of moves is applied on a real control plane, by a user with the shipped roles.

serve-0, of a StatefulSet, runs on n1 and is in the way of train. A finalizer keeps the evicted Pod,
so the StatefulSet makes the next one only when a test has done what is to go wrong in between.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bayplan.client.connection import Connection
from bayplan.client.hold import DURATION, Hold
from bayplan.client.http import Http
from e2e.cluster import DEPLOY, NAME, OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.devices import Devices, pod_using
from e2e.provider import NodeSpec, token_kubeconfig, wait_until
from e2e.test_groups import CRD, LABEL, create_group

pytestmark = pytest.mark.e2e

ROLES = DEPLOY / "components" / "improve" / "users.yaml"
LEASE = "bayplan-improve"
USER = "improves"
N1, N2 = "improve-n1", "improve-n2"
FINALIZER = "bayplan.dev/e2e-keeps"


class Scene(NamedTuple):
    """A cluster in which one move is needed.

    Attributes:
        cluster: the cluster.
        bayplan: the scheduler.
        config: its configuration.
        user: the kubeconfig of one who may apply plans.
        plan: the file of the plan.
        restart: starts another scheduler with the same configuration.
    """

    cluster: Cluster
    bayplan: Bayplan
    config: Path
    user: Path
    plan: Path
    restart: Callable[[], Bayplan]


@pytest.fixture(scope="module")
def shared(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster of its own: where another scheduler has the same Lease both answer orders."""
    with ExitStack() as stack:
        yield new_cluster(stack)


@pytest.fixture(scope="module")
def user(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a ServiceAccount with the shipped roles, and nothing else."""
    shared.kubectl("apply", "-f", str(ROLES))
    shared.kubectl("create", "serviceaccount", USER, namespace=shared.namespace)
    account, role = f"--serviceaccount={shared.namespace}:{USER}", "role=bayplan-improve"
    shared.kubectl("create", "clusterrolebinding", USER, f"--cluster{role}", account)
    shared.kubectl("create", "rolebinding", USER, f"--{role}", account, namespace=SYSTEM)
    token = shared.token(USER, shared.namespace)
    folder = tmp_path_factory.mktemp("improve")
    yield token_kubeconfig(folder / USER, shared.plane.kubeconfig, token)
    shared.kubectl("delete", "rolebinding", USER, namespace=SYSTEM)
    shared.kubectl("delete", "clusterrolebinding", USER)
    shared.kubectl("delete", "serviceaccount", USER, namespace=shared.namespace)
    shared.kubectl("delete", "-f", str(ROLES))


@pytest.fixture
def config(cluster: Cluster) -> Path:
    """The configuration of the scheduler that is tested."""
    return cluster.config(OTHER, leaderElection={"leaderElect": False, "resourceName": NAME})


@pytest.fixture
def scene(
    cluster: Cluster, start: Callable[..., Bayplan], config: Path, user: Path, tmp_path: Path
) -> Iterator[Scene]:
    """The scene of the tests, with its plan."""
    bayplan = start(config, serving=())
    cluster.nodes(NodeSpec(N1, cpu="4"))
    cluster.put(stateful_set("1"), namespace=cluster.namespace)
    wait_until(lambda: node_of(cluster, "serve-0") == N1, SOON, "a node for serve-0")
    try:
        cluster.nodes(NodeSpec(N2, cpu="2"))
        finalizers(cluster, "serve-0", FINALIZER)
        cluster.create(pod("train", OTHER, cpu="4"))
        wait_until(lambda: cluster.condition("train"), SOON, "train to wait")
        settle(cluster, "serve-0")
        plan = tmp_path / "plan.json"
        plan.write_text(planned(cluster, config))
        yield Scene(cluster, bayplan, config, user, plan, lambda: start(config, serving=()))
    finally:
        cluster.kubectl("delete", "statefulset", "serve", namespace=cluster.namespace)
        with suppress(RuntimeError):  # it may be gone
            finalizers(cluster, "serve-0")


def planned(cluster: Cluster, config: Path, goal: str = "train") -> str:
    asks = improve("for", goal, f"--namespace={cluster.namespace}", f"--config={config}")
    asks += ["-o", "json", f"--kubeconfig={cluster.plane.kubeconfig}"]
    run = subprocess.run(asks, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def improve(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bayplan", "improve", *arguments]


def stateful_set(cpu: str, **more: Any) -> Json:
    labels = {"app": "serve", "bayplan.dev/movable": "true"}
    made = pod("serve", OTHER, labels=labels, cpu=cpu, **more)
    template = {"metadata": {"labels": labels}, "spec": made["spec"]}
    spec = {"replicas": 1, "serviceName": "serve", "selector": {"matchLabels": {"app": "serve"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "serve"},
        "spec": {**spec, "template": template},
    }


def node_of(cluster: Cluster, name: str) -> str:
    found = cluster.pods().get(name)
    return "" if found is None else str(found["spec"].get("nodeName", ""))


def finalizers(cluster: Cluster, name: str, *names: str) -> None:
    patch = json.dumps({"metadata": {"finalizers": list(names)}})
    cluster.kubectl("patch", "pod", name, "--type=merge", "-p", patch, namespace=cluster.namespace)


def settle(cluster: Cluster, name: str) -> None:
    """Wait until the Pod runs: its resourceVersion stays."""

    def runs() -> bool:
        return bool(cluster.pod(name)["status"].get("phase") == "Running")

    wait_until(runs, SOON, f"{name} to run")


def apply(scene: Scene, wait: str = "60") -> subprocess.Popen[str]:
    """Begin to apply the plan."""
    return applying(scene.plan, scene.user, wait)


def applying(plan: Path, user: Path, wait: str = "60") -> subprocess.Popen[str]:
    """The process of that user who applies the plan."""
    command = improve("--apply", str(plan), f"--kubeconfig={user}", f"--wait={wait}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def evicted(scene: Scene, process: subprocess.Popen[str]) -> None:
    """Wait until serve-0 is terminating."""

    def leaves() -> bool:
        assert process.poll() is None, process.communicate()
        found = scene.cluster.pods().get("serve-0", {"metadata": {}})
        return "deletionTimestamp" in found["metadata"]

    wait_until(leaves, SOON, "the eviction of serve-0")


def let_go(cluster: Cluster) -> None:
    """The evicted Pod ends, and the StatefulSet makes the next one."""
    uid = cluster.pod("serve-0")["metadata"]["uid"]
    finalizers(cluster, "serve-0")

    def again() -> bool:
        found = cluster.pods().get("serve-0")
        return found is not None and found["metadata"]["uid"] != uid

    wait_until(again, SOON, "serve-0 made again")


def lease(cluster: Cluster) -> Json:
    found: Json = json.loads(cluster.kubectl("get", "lease", LEASE, "-o=json", namespace=SYSTEM))
    return found


def ended(scene: Scene, process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of the process; its exit code, and what it said."""
    out, err = process.communicate(timeout=SOON)
    if process.returncode >= 0:
        assert not lease(scene.cluster)["spec"].get("holderIdentity"), "the Lease is given up"
    return process.returncode, out + err


def test_the_moves_are_made_and_the_goal_holds(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    thief = pod("thief", OTHER, cpu="2")
    scene.cluster.create(thief)
    wait_until(lambda: scene.cluster.condition("thief"), SOON, "the thief to be kept off")
    let_go(scene.cluster)
    code, said = ended(scene, process)
    assert code == 0
    assert said.splitlines() == [
        "step 1: bayplan-e2e/serve-0 is evicted from improve-n1",
        "step 1: bayplan-e2e/serve-0 is on improve-n2",
        "1 move made, and Pod bayplan-e2e/train fits.",
    ]
    assert node_of(scene.cluster, "serve-0") == N2
    assert node_of(scene.cluster, "train") == N1
    assert not node_of(scene.cluster, "thief")
    code, said = ended(scene, apply(scene))
    assert code == 2
    assert "nothing was touched: Pod bayplan-e2e/serve-0 is gone since the plan was made" in said
    wait_until(scene.bayplan.holds_what_the_api_server_has, SOON, "no difference")


def test_the_running_scheduler_makes_the_same_plan(scene: Scene) -> None:
    asks = improve("for", "train", f"--namespace={scene.cluster.namespace}", "-o", "json")
    asks += [f"--server={scene.bayplan.endpoint.url}", "--insecure-skip-tls-verify"]
    admin = [*asks, f"--kubeconfig={scene.cluster.plane.kubeconfig}"]
    run = subprocess.run(admin, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "asked of the running scheduler, by its own state\n")
    assert json.loads(run.stdout)["token"] == json.loads(scene.plan.read_text())["token"]
    asks.append(f"--kubeconfig={scene.user}")
    run = subprocess.run(asks, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "forbidden" in run.stderr


def test_a_second_one_is_refused(scene: Scene) -> None:
    http = Http(Connection.load(str(scene.cluster.plane.kubeconfig)))
    first = Hold(http, SYSTEM, LEASE, "somebody else")
    first.acquire({})
    run = subprocess.run(apply(scene).args, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "nothing was touched: somebody else applies a plan, since " in run.stderr
    first.give_up()
    assert node_of(scene.cluster, "serve-0") == N1


def test_one_left_behind_is_taken_over(scene: Scene) -> None:
    spec = {"holderIdentity": "killed", "leaseDurationSeconds": 1}
    spec |= {"renewTime": f"{datetime(2026, 1, 1, tzinfo=UTC):%Y-%m-%dT%H:%M:%S.%f}Z"}
    scene.cluster.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE},
            "spec": spec,
        },
        namespace=SYSTEM,
    )
    process = apply(scene)
    evicted(scene, process)
    let_go(scene.cluster)
    assert ended(scene, process)[0] == 0


def test_without_the_roles_nothing_is_touched(scene: Scene, tmp_path: Path) -> None:
    with scene.cluster.users(tmp_path, "improve-nobody") as users:
        code, said = ended_by(scene._replace(user=users["improve-nobody"]))
    assert code == 2
    assert "nothing was touched" in said
    assert "forbidden" in said
    assert node_of(scene.cluster, "serve-0") == N1


def ended_by(scene: Scene) -> tuple[int, str]:
    run = subprocess.run(apply(scene).args, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.usefixtures("priorities")
def test_another_owner_takes_the_room(scene: Scene) -> None:
    process = apply(scene, wait="15")
    evicted(scene, process)
    thief = pod("thief", OTHER, cpu="2", priorityClassName="e2e-polite")
    scene.cluster.create(thief | {"spec": thief["spec"] | {"nodeSelector": on(N2)}})
    scene.cluster.wait_bound("thief")
    let_go(scene.cluster)
    code, said = ended(scene, process)
    assert code == 1
    assert "Stopped: bayplan-e2e/serve-0 is not bound to its room on improve-n2: 0/" in said
    stands = "evicted, and not on improve-n2: bayplan-e2e/serve-0"
    assert f"No room is held any more.\n  {stands}" in said
    wait_until(lambda: one_is_placed(scene), SOON, "the room on the other node to be used")


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


def one_is_placed(scene: Scene) -> bool:
    """Whether what was held on n1 is used: by what the plan was for, or by whom was evicted."""
    return N1 in (node_of(scene.cluster, "train"), node_of(scene.cluster, "serve-0"))


def test_the_node_dies(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    scene.cluster.kubectl("delete", "node", N2)
    code, said = ended(scene, process)
    assert code == 1
    why = f"node {N2}, where bayplan-e2e/serve-0 is to go, is gone"
    assert said.splitlines()[-2:] == [
        f"Stopped: {why}. No room is held any more.",
        f"  evicted, and not on {N2}: bayplan-e2e/serve-0",
    ]
    let_go(scene.cluster)
    wait_until(lambda: one_is_placed(scene), SOON, "the room on the other node to be used")


def test_the_pod_is_made_again_with_another_shape(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    scene.cluster.put(stateful_set("1500m"), namespace=scene.cluster.namespace)
    let_go(scene.cluster)
    code, said = ended(scene, process)
    assert code == 1
    assert "serve-0, made again for bayplan-e2e/serve-0, is not like that one" in said
    wait_until(lambda: one_is_placed(scene), SOON, "the room on the other node to be used")


def test_the_scheduler_is_killed(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    scene.bayplan.kill()
    scene.restart()
    code, said = ended(scene, process)
    assert code == 1
    assert ", which held the rooms, does not lead any more. No room is held any more." in said
    let_go(scene.cluster)
    wait_until(lambda: one_is_placed(scene), SOON, "the room on the other node to be used")


def test_the_process_that_applies_is_killed(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    scene.cluster.create(pod("late", OTHER, cpu="2", nodeSelector=on(N2)))
    wait_until(lambda: scene.cluster.condition("late"), SOON, "late to be kept off")
    process.kill()
    process.wait()
    scene.cluster.wait_bound("late", timeout=DURATION + SOON)
    let_go(scene.cluster)
    wait_until(lambda: one_is_placed(scene), SOON, "the room on the other node to be used")


def test_it_is_interrupted(scene: Scene) -> None:
    process = apply(scene)
    evicted(scene, process)
    process.send_signal(signal.SIGTERM)
    code, said = ended(scene, process)
    assert code == 1
    assert "Stopped: it was interrupted. No room is held any more." in said


def test_what_has_changed_is_not_touched(scene: Scene) -> None:
    scene.cluster.kubectl("label", "pod", "serve-0", "x=y", namespace=scene.cluster.namespace)
    code, said = ended_by(scene)
    assert code == 2
    assert "nothing was touched: Pod bayplan-e2e/serve-0 has changed since" in said
    scene.plan.write_text(json.dumps(json.loads(scene.plan.read_text()) | {"cluster": "other"}))
    code, said = ended_by(scene)
    assert code == 2
    assert "nothing was touched: the plan is of another cluster" in said
    assert node_of(scene.cluster, "serve-0") == N1


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """A device on each node, claims for one of which are made from a template."""
    made = Devices(cluster)
    made.device_class()
    made.template("one")
    made.gpus(N1, 1)
    made.gpus(N2, 1)
    yield made
    cluster.kubectl("delete", "statefulset", "serve", namespace=cluster.namespace)
    cluster.clear()
    made.clear()


def test_a_pod_with_a_device_gets_another_one(
    cluster: Cluster, start: Callable[..., Bayplan], config: Path, user: Path, devices: Devices
) -> None:
    start(config, serving=())
    cluster.nodes(NodeSpec(N1, cpu="4"))
    claims = [{"name": "made", "resourceClaimTemplateName": "one"}]
    cluster.put(stateful_set("1", resourceClaims=claims), namespace=cluster.namespace)
    wait_until(lambda: node_of(cluster, "serve-0") == N1, SOON, "a node for serve-0")
    cluster.nodes(NodeSpec(N2, cpu="2"))
    cluster.create(pod_using("train", OTHER, template="one", cpu="3"))
    cluster.wait_condition("train", text="1 cannot allocate all claims")
    settle(cluster, "serve-0")
    plan = config.with_name("plan.json")
    plan.write_text(planned(cluster, config))
    process = applying(plan, user)
    out, err = process.communicate(timeout=2 * SOON)
    assert process.returncode == 0, out + err
    assert (node_of(cluster, "serve-0"), node_of(cluster, "train")) == (N2, N1)
    assert not devices.taken_twice()


GANGS = {
    "multiPoint": {
        "enabled": [{"name": "Coscheduling"}],
        "disabled": [{"name": "PrioritySort"}],
    }
}


@pytest.fixture
def gangs(cluster: Cluster) -> Iterator[Path]:
    """The configuration of a scheduler with Coscheduling, and the CRD."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    profile = {"schedulerName": OTHER, "plugins": GANGS}
    elected = {"leaderElect": False, "resourceName": NAME}
    yield cluster.config(profiles=[profile], leaderElection=elected)
    cluster.kubectl("delete", "statefulset", "serve", namespace=cluster.namespace)
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)


def gang(cpu: str) -> Json:
    """A StatefulSet of two Pods, which are made at once and need each other."""
    made = stateful_set(cpu)
    made["spec"] |= {"replicas": 2, "podManagementPolicy": "Parallel"}
    made["spec"]["template"]["metadata"]["labels"][LABEL] = "g"
    return made


def test_a_gang_moves_together_and_a_gang_gets_its_room(
    cluster: Cluster, start: Callable[..., Bayplan], gangs: Path, user: Path
) -> None:
    start(gangs, serving=())
    cluster.nodes(NodeSpec(N1, cpu="4"))
    create_group(cluster, "g", 2)
    cluster.put(gang("1"), namespace=cluster.namespace)
    running = ("serve-0", "serve-1")
    wait_until(lambda: {node_of(cluster, one) for one in running} == {N1}, SOON, "a running gang")
    for one in running:
        settle(cluster, one)
    cluster.nodes(NodeSpec(N2, cpu="2"))
    create_group(cluster, "t", 2)
    where = {"nodeSelector": on(N1), "cpu": "2"}
    trains = [pod(f"train-{i}", OTHER, {LABEL: "t"}, **where) for i in range(2)]
    cluster.create(*trains)
    for made in trains:
        cluster.wait_condition(made["metadata"]["name"])
    plan = gangs.with_name("plan.json")
    plan.write_text(planned(cluster, gangs, "podgroup/t"))
    assert [move["step"] for move in json.loads(plan.read_text())["moves"]] == [1, 1]
    process = applying(plan, user)
    out, err = process.communicate(timeout=2 * SOON)
    assert process.returncode == 0, out + err
    assert {node_of(cluster, one) for one in running} == {N2}
    assert {node_of(cluster, f"train-{i}") for i in range(2)} == {N1}
    assert not lease(cluster)["spec"].get("holderIdentity")
