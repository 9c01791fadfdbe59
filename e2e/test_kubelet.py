"""What only nodes that run Pods can show: the image, deploy/, and the end of real containers."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from bayplan.rejections.conflicts import REJECTED
from e2e.cluster import CONFIG, DEPLOY, NAME, SOON, SYSTEM, Cluster, Json, pod
from e2e.deployment import (
    CHART,
    TOKEN_SECONDS,
    UP,
    Deployment,
    Leading,
    environ,
    helm,
    is_ready,
    static_pod,
)
from e2e.devices import Devices, pod_using
from e2e.provider import wait_until
from e2e.provider.choose import chosen
from e2e.provider.kubelet import KubeletControlPlane
from e2e.provider.kubelet.box import only_child
from e2e.test_controllers import LABEL, create, wait_status

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        chosen() is not KubeletControlPlane, reason="takes nodes that run Pods: PROVIDER=kubelet"
    ),
]

Measured = Callable[..., None]

LEASE_SECONDS = 15.0
"""leaseDuration, after which a leader that gave nothing up is replaced."""

LEEWAY_SECONDS = 60.0
"""So long the API server still accepts a token that has expired."""

PLUGIN = """
from bayplan.framework import Plugin, Status


class OnlyOn(Plugin):
    def filter(self, state, pod, node):
        if node.name != "{node}":
            return Status.unschedulable("not there")
"""


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Note a measurement: ``measured("what", number)``; printed after the last test."""
    lines: list[str] = []
    yield lambda what, number, unit="s": lines.append(f"{what}: {number:.1f} {unit}")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("", *lines, sep="\n")


@pytest.fixture(scope="module")
def real(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster with its nodes in use, and kube-scheduler beside bayplan."""
    with ExitStack() as stack:
        cluster = new_cluster(stack)
        cluster.plane.start_kube_scheduler()
        cluster.uncordon_others()
        yield cluster


@pytest.fixture(scope="module")
def applied(real: Cluster, measured: Measured) -> Deployment:
    begin = time.monotonic()
    deployment = Deployment(real)
    deployment.apply()
    deployment.wait_leader()
    measured("deploy/ applied until both replicas are Ready", since(begin))
    return deployment


@pytest.fixture
def deployment(real: Cluster, applied: Deployment) -> Iterator[Deployment]:
    """The Deployment with both replicas Ready, one of them leading; no other Pods."""
    applied.wait_available()
    applied.wait_leader()
    yield applied
    real.clear()


def since(begin: float) -> float:
    return time.monotonic() - begin


def containers(pods: dict[str, Json]) -> set[str]:
    return {one["containerID"] for p in pods.values() for one in p["status"]["containerStatuses"]}


def wait_ready(cluster: Cluster, name: str) -> None:
    wait_until(lambda: is_ready(cluster.pod(name)), UP, f"{name} Ready")


def place_until_done(cluster: Cluster, work: Future[None]) -> list[str]:
    """Place one Pod after the other until that is done; returns their names, raises its error."""
    names: list[str] = []
    while not work.done():
        names += cluster.create(pod(f"p{len(names)}", cpu="1m"))
        cluster.wait_bound(names[-1], timeout=UP)
        cluster.delete(names[-1])
    work.result()
    assert names
    return names


def test_both_replicas_run_as_nobody_on_a_read_only_root(
    real: Cluster, deployment: Deployment
) -> None:
    program = """
        try:
            open("/tmp/file", "w")
        except OSError as error:
            print(error.strerror)
        print(open("/proc/1/status").read())
    """
    replicas = deployment.pods()
    assert {p["spec"]["nodeName"] for p in replicas.values()} == {"kubelet-a", "kubelet-b"}
    for name in replicas:
        inside = ("exec", name, "--", "python3", "-c", dedent(program))
        error, *status = real.kubectl(*inside, namespace=SYSTEM).splitlines()
        assert error == "Read-only file system"
        fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
        assert set(fields["Uid"].split()) == {"65532"}
        assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


@pytest.mark.usefixtures("deployment")
def test_a_pod_that_chooses_bayplan_runs(real: Cluster, measured: Measured) -> None:
    begin = time.monotonic()
    real.create(pod("web", cpu="10m"))
    wait_ready(real, "web")
    measured("a Pod created until it is Ready", since(begin))
    real.wait_event("web", "Scheduled", "Successfully assigned")


def test_whoever_asks_gets_a_port_forwarded_to_the_leader(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bayplan", *arguments]
        command.append(f"--kubeconfig={real.plane.kubeconfig}")
        return subprocess.run(command, capture_output=True, text=True, check=False)

    real.create(pod("too-large", cpu="800"))
    real.wait_condition("too-large")
    begin = time.monotonic()
    status = asked("status", "-o", "json")
    measured("bayplan status by a forwarded port", since(begin))
    assert status.returncode == 0, status.stderr + status.stdout
    assert json.loads(status.stdout)["identity"] == deployment.leader()
    why = asked("why", "too-large", "-n", real.namespace)
    assert "too-large waits: " in why.stdout, why.stderr


def test_a_leader_that_is_deleted_hands_over_at_once(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    leader = deployment.leader()
    begin = time.monotonic()
    deployment.delete(leader.split("_")[0])
    deployment.wait_leader(leader)
    seconds = since(begin)
    measured("the leader deleted until another leads", seconds)
    assert seconds < 10, "it gave the Lease up; nobody waited for leaseDuration"
    real.create(pod("after", cpu="10m"))
    wait_ready(real, "after")


def test_a_leader_that_is_killed_is_replaced_when_the_lease_has_run_out(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    leader = deployment.leader()
    name = leader.split("_")[0]
    begin = time.monotonic()
    deployment.signal(name, signal.SIGKILL)
    real.create(pod("meanwhile", cpu="10m"))
    deployment.wait_leader(leader)
    measured("the leader killed until another leads", since(begin))
    wait_ready(real, "meanwhile")
    measured("the leader killed until a Pod of that time is Ready", since(begin))
    deployment.wait_available()
    [container] = deployment.pods()[name]["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 128 + signal.SIGKILL


def test_a_drain_moves_the_leader_and_never_takes_the_last_replica(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    leader = deployment.leader()
    first = deployment.pods()[leader.split("_")[0]]["spec"]["nodeName"]
    [second] = {"kubelet-a", "kubelet-b"} - {first}
    drain = ("drain", "--ignore-daemonsets", "--timeout=60s")
    try:
        begin = time.monotonic()
        real.kubectl(*drain, first)
        measured("the leader's node drained", since(begin))
        successor = deployment.wait_leader(leader)
        deployment.wait_available()
        with pytest.raises(RuntimeError, match="violate the pod's disruption budget"):
            real.kubectl(*drain[:-1], "--timeout=12s", second)
        assert any(is_ready(replica) for replica in deployment.pods().values())
        assert deployment.wait_leader() != leader
        assert successor
    finally:
        real.kubectl("uncordon", first, second)


def test_changed_configmaps_are_taken_without_a_restart(
    real: Cluster, deployment: Deployment, tmp_path: Path, measured: Measured
) -> None:
    replicas = deployment.pods()
    plugins = tmp_path / "only_on.py"

    def change(node: str) -> None:
        plugins.write_text(PLUGIN.format(node=node))
        make = ("create", "configmap", "bayplan-plugins", f"--from-file={plugins}")
        document = real.kubectl(*make, "--dry-run=client", "-o=yaml", namespace=SYSTEM)
        (tmp_path / "map.yaml").write_text(document)
        real.kubectl("apply", "-f", str(tmp_path / "map.yaml"), namespace=SYSTEM)

    def reloads() -> list[int]:
        return [len(deployment.lines(name, "Configuration reloaded")) for name in replicas]

    begin = time.monotonic()
    change("kubelet-a")
    enabled = {"multiPoint": {"enabled": [{"name": "OnlyOn"}]}}
    deployment.configure(profiles=[{"schedulerName": NAME, "plugins": enabled}])
    wait_until(lambda: min(reloads()) >= 1, 2 * UP, "both replicas have reloaded")
    measured("plugin and configuration changed until both replicas use them", since(begin))
    real.create(*(pod(f"a{i}", cpu="10m") for i in range(4)))
    assert set(real.wait_bound(*(f"a{i}" for i in range(4))).values()) == {"kubelet-a"}

    before = reloads()
    begin = time.monotonic()
    change("kubelet-b")
    for name in replicas:  # the kubelet looks at the Pod, and so at its volumes, at once
        real.kubectl("annotate", "pod", name, "looked-at=now", namespace=SYSTEM)
    changed = [count + 1 for count in before]
    wait_until(lambda: reloads() >= changed, 2 * UP, "both replicas have reloaded again")
    measured("a plugin changed and its Pods annotated until both use it", since(begin))
    real.create(*(pod(f"b{i}", cpu="10m") for i in range(4)))
    assert set(real.wait_bound(*(f"b{i}" for i in range(4))).values()) == {"kubelet-b"}

    assert deployment.pods().keys() == replicas.keys()
    assert containers(deployment.pods()) == containers(replicas)
    deployment.configure()


def test_a_replica_that_is_deleted_as_it_starts_ends_at_once(
    deployment: Deployment, measured: Measured
) -> None:
    before = deployment.pods()
    deployment.delete(min(before))

    def started() -> str:
        for name, replica in deployment.pods().items():
            states = [c["state"] for c in replica["status"].get("containerStatuses", ())]
            if name not in before and any("running" in state for state in states):
                return name
        return ""

    name = wait_until(started, UP, "its replacement runs")
    begin = time.monotonic()
    deployment.delete(name)
    wait_until(lambda: name not in deployment.pods(), UP, "the end of the replacement")
    seconds = since(begin)
    measured("a replica deleted as it starts until it is gone", seconds)
    assert seconds < 20, "its grace of 30 s was not needed"


@pytest.mark.parametrize("who", ["leader", "other"])
def test_on_sigterm_the_process_ends_in_order(
    deployment: Deployment, who: str, measured: Measured
) -> None:
    leader = deployment.leader().split("_")[0]
    name = leader if who == "leader" else next(n for n in deployment.pods() if n != leader)

    def restarts() -> Json:
        status: Json = deployment.pods()[name]["status"]["containerStatuses"][0]
        return status

    before = restarts()["restartCount"]
    begin = time.monotonic()
    deployment.signal(name, signal.SIGTERM)
    wait_until(lambda: restarts()["restartCount"] > before, UP, "its restart")
    measured(f"SIGTERM to the {who} until its container runs again", since(begin))
    assert restarts()["lastState"]["terminated"]["exitCode"] == 0


@pytest.mark.usefixtures("deployment")
def test_a_preempting_pod_waits_for_a_victim_that_takes_its_time(
    real: Cluster, measured: Measured
) -> None:
    real.kubectl("create", "priorityclass", "e2e-kubelet", "--value=1000")
    where: Json = {"nodeSelector": {"kubernetes.io/hostname": "kubelet-a"}}
    slow = pod("slow", cpu="1200m", **where)
    slow["spec"]["terminationGracePeriodSeconds"] = 60
    slow["spec"]["containers"][0]["args"] = ["6s"]  # so long does it take to end
    try:
        real.create(slow)
        wait_ready(real, "slow")
        begin = time.monotonic()
        real.create(pod("vip", cpu="1200m", priorityClassName="e2e-kubelet", **where))

        def nominated() -> str:
            return str(real.pod("vip")["status"].get("nominatedNodeName") or "")

        def ending() -> bool:
            return "deletionTimestamp" in real.pod("slow")["metadata"]

        assert wait_until(nominated, SOON, "a nominated node") == "kubelet-a"
        wait_until(ending, SOON, "the victim's deletion")
        assert real.node_of("vip") == ""
        wait_ready(real, "vip")
        seconds = since(begin)
        measured("a Pod preempts one that takes 6 s to end, until it is Ready", seconds)
        assert seconds > 6
        rest = real.pods().get("slow")
        assert rest is None or rest["status"]["phase"] == "Succeeded", "it ended in order"
    finally:
        real.kubectl("delete", "priorityclass", "e2e-kubelet")


@pytest.mark.usefixtures("deployment")
def test_of_two_schedulers_that_race_the_kubelet_takes_what_fits(
    real: Cluster, measured: Measured
) -> None:
    """Neither sees the other's choice in time: the kubelet fails the Pod that came last."""
    rounds, rejected = 4, 0
    for number in range(rounds):
        names = real.create(
            *(
                pod(f"race-{number}-{by[0]}{i}", by, cpu="600m")
                for i in range(4)
                for by in (NAME, "default-scheduler")
            )
        )

        def settled(names: list[str] = names) -> list[Json]:
            pods = [real.pod(name) for name in names]
            conditions = [real.condition(name).get("reason") for name in names]
            done = [
                is_ready(p) or p["status"]["phase"] == "Failed" or reason == "Unschedulable"
                for p, reason in zip(pods, conditions, strict=True)
            ]
            return pods if all(done) else []

        pods = wait_until(settled, UP, "the end of the race")
        failed = [p for p in pods if p["status"]["phase"] == "Failed"]
        assert {p["status"]["reason"] for p in failed} <= {"OutOfcpu"}
        for p in failed:
            if p["spec"]["schedulerName"] == NAME:
                note = f"Node {p['spec']['nodeName']} rejected the Pod (OutOfcpu)."
                real.wait_event(p["metadata"]["name"], "RejectedByNode", note)
        for node in ("kubelet-a", "kubelet-b"):
            running = [p for p in pods if is_ready(p) and p["spec"]["nodeName"] == node]
            assert len(running) <= 3, "a node has 2 CPUs, of which bayplan takes 200m"
        rejected += len(failed)
        real.clear()
    measured(f"OutOfcpu in {rounds} rounds of a race with kube-scheduler", rejected, "Pods")


def test_a_kubelet_marks_a_pod_that_it_does_not_admit(real: Cluster) -> None:
    """By this mark bayplan tells such a Pod from one whose containers failed."""
    real.create(pod("first", "nobody", cpu="1500m", nodeName="kubelet-a"))
    wait_ready(real, "first")
    real.create(pod("second", "nobody", cpu="1500m"))
    real.bind("second", "kubelet-a")
    wait_until(lambda: real.pod("second")["status"]["phase"] == "Failed", UP, "its rejection")
    status = real.pod("second")["status"]
    assert status["reason"] == "OutOfcpu"
    assert status["message"].startswith(REJECTED)
    real.clear()


@pytest.mark.usefixtures("deployment")
def test_what_a_resized_pod_gives_back_goes_to_the_next(real: Cluster, measured: Measured) -> None:
    where: Json = {"nodeSelector": {"kubernetes.io/hostname": "kubelet-a"}}
    real.create(pod("large", cpu="1500m", **where))
    wait_ready(real, "large")
    real.create(pod("next", cpu="1", **where))
    real.wait_condition("next")
    begin = time.monotonic()
    smaller = {
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}
    }
    patch = ("patch", "pod", "large", "--subresource=resize", f"--patch={json.dumps(smaller)}")
    real.kubectl(*patch, namespace=real.namespace)
    wait_ready(real, "next")
    measured("a Pod made smaller until the next one is Ready", since(begin))
    [status] = real.pod("large")["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    assert status["resources"]["requests"]["cpu"] == "500m"


def test_a_rolling_update_under_load_loses_no_pod(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    before = deployment.pods().keys()
    begin = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        names = place_until_done(real, pool.submit(deployment.roll))
    measured("both replicas replaced one after the other", since(begin))
    measured("Pods placed meanwhile, one at a time", len(names), "Pods")
    assert not before & deployment.pods().keys()


def test_an_upgrade_and_its_way_back_leave_no_gap_and_lose_no_pod(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    """To the image and the deploy/ of another commit, and to these here again."""
    plane = real.plane
    assert isinstance(plane, KubeletControlPlane)
    revision = os.environ.get("BASE") or "HEAD~3"
    try:
        folder = plane.load_previous(revision)
    except LookupError as error:
        pytest.skip(str(error))
    steps = {"back": lambda: deployment.apply_previous(folder / "deploy"), "up": deployment.apply}
    for step, work in steps.items():
        before = deployment.pods().keys()
        begin = time.monotonic()
        with Leading(real) as leading, ThreadPoolExecutor(1) as pool:
            names = place_until_done(real, pool.submit(work))
            deployment.wait_leader()
        measured(f"{step}, between {revision} and here", since(begin))
        measured("Pods placed meanwhile, one at a time", len(names), "Pods")
        measured("the longest time without a leader", max(leading.gaps()))
        assert not before & deployment.pods().keys()
        assert max(leading.gaps()) < LEASE_SECONDS


def test_the_api_server_is_restarted_under_it(
    real: Cluster, deployment: Deployment, measured: Measured
) -> None:
    begin = time.monotonic()
    real.plane.parts["kube-apiserver"].kill()
    real.plane.parts["kube-apiserver"].start()
    measured("the API server killed until it is ready again", since(begin))
    real.create(pod("after", cpu="10m"))
    wait_ready(real, "after")
    measured("the API server killed until a new Pod is Ready", since(begin))
    deployment.wait_available()


def test_as_a_static_pod_it_takes_the_place_of_kube_scheduler(
    new_cluster: Callable[..., Cluster], measured: Measured
) -> None:
    """As kubeadm runs kube-scheduler: its user, its Lease, files of the node, no ServiceAccount."""
    with ExitStack() as stack:
        cluster = new_cluster(stack)
        cluster.uncordon_others()
        plane = cluster.plane
        assert isinstance(plane, KubeletControlPlane)
        node = plane.nodes[0]
        files = node.folder / "bayplan"
        files.mkdir()
        user = plane.authority.issue("kube-scheduler", "system:kube-scheduler")
        plane._kubeconfig(files / "kubeconfig", user).chmod(0o644)  # read by user 65532
        lease = {"resourceName": "kube-scheduler", "resourceNamespace": SYSTEM}
        profiles = [{"schedulerName": "default-scheduler"}]
        cluster.config(leaderElection=lease, profiles=profiles).rename(files / "config.yaml")
        begin = time.monotonic()
        (node.manifests / "bayplan.json").write_text(json.dumps(static_pod(plane.image, files)))
        cluster.create(pod("p", "default-scheduler", cpu="10m"))
        wait_ready(cluster, "p")
        measured("a static Pod written until a Pod that it placed is Ready", since(begin))
        held = cluster.kubectl("get", "lease", "kube-scheduler", "-o=json", namespace=SYSTEM)
        assert json.loads(held)["spec"]["holderIdentity"]


# The controllers


def wait_statuses(cluster: Cluster, scheduler: str, name: str) -> None:
    """Place Pods of a group, and see the statuses of the group, a quota and a queue follow."""
    try:
        _wait_statuses(cluster, scheduler, name)
    finally:  # a queue that stays has the namespace, and the next one has nothing
        kinds = f"podgroup/{name}", f"elasticquota/{name}", f"queue/{name}"
        cluster.kubectl("delete", "--ignore-not-found", *kinds, namespace=cluster.namespace)


def _wait_statuses(cluster: Cluster, scheduler: str, name: str) -> None:
    create(cluster, "PodGroup", name, minMember=3)
    create(cluster, "ElasticQuota", name, min={"cpu": "300m"}, max={"cpu": "1"})
    names = {"kubernetes.io/metadata.name": cluster.namespace}
    create(cluster, "Queue", name, namespaceSelector={"matchLabels": names}, limit={"cpu": "1"})
    wait_status(cluster, "podgroup", name, phase="Pending")
    members = [pod(f"{name}-{i}", scheduler, {LABEL: name}, cpu="100m") for i in range(3)]
    for member in cluster.create(*members):
        wait_ready(cluster, member)
    wait_status(cluster, "podgroup", name, phase="Running", running=3)
    wait_status(cluster, "elasticquota", name, used={"cpu": "300m"})

    def used() -> str:
        status: Json = wait_status(cluster, "queue", name, pending=0)["used"]
        return str(status.get("cpu"))

    wait_until(lambda: used() == "300m", SOON, "what the queue uses")
    cluster.clear()
    wait_status(cluster, "podgroup", name, phase="Pending")
    wait_status(cluster, "queue", name, used={})


@pytest.mark.usefixtures("deployment")
def test_the_controllers_write_statuses_whichever_replica_is_left(
    real: Cluster, measured: Measured
) -> None:
    begin = time.monotonic()
    real.kubectl("apply", "-k", str(DEPLOY / "overlays" / "with-controllers"))
    controllers = Deployment(real, f"{NAME}-controllers")
    controllers.wait_available()
    measured("the overlay with-controllers applied until all replicas are Ready", since(begin))
    leader = controllers.wait_leader()
    begin = time.monotonic()
    wait_statuses(real, NAME, "first")
    measured("statuses of a group, a quota and a queue there and back", since(begin))
    begin = time.monotonic()
    controllers.delete(leader.split("_")[0])
    controllers.wait_leader(leader)
    measured("the leading replica of the controllers deleted until another leads", since(begin))
    wait_statuses(real, NAME, "second")
    controllers.wait_available()
    for name, replica in controllers.pods().items():
        [container] = replica["status"]["containerStatuses"]
        if container["restartCount"]:  # the API server did not answer for 10 s
            assert "the Lease was lost" in controllers.log(name, "--previous")


def test_helm_installs_upgrades_rolls_back_and_uninstalls(
    real: Cluster, tmp_path: Path, measured: Measured
) -> None:
    """In a namespace of its own, beside a scheduler of deploy/ or none, with the controllers."""

    def run(*arguments: str) -> str:
        where = (f"--kubeconfig={real.plane.kubeconfig}", "--namespace=plans")
        finished = helm(*arguments, *where, home=tmp_path)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    [profile] = yaml.safe_load(CONFIG.read_text())["profiles"]
    values = {
        "config": {"profiles": [profile | {"schedulerName": "plans"}]},
        "controllers": {"enabled": True, "extraArgs": ["--scheduler-name=plans"]},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    chart = ("second", str(CHART), f"--values={tmp_path / 'values.yaml'}")
    wait = ("--wait", f"--timeout={UP:.0f}s")
    real.kubectl("apply", "-k", str(DEPLOY / "crds"))
    begin = time.monotonic()
    run("install", *chart, "--create-namespace", *wait)
    measured("helm install --wait, with the controllers", since(begin))
    release = Deployment(real, "second", "plans")
    controllers = Deployment(real, "second-controllers", "plans")
    for deployment in (release, controllers):
        deployment.wait_available()
        assert deployment.wait_leader()
    wait_statuses(real, "plans", "helm")

    def level() -> set[str]:
        arguments = [p["spec"]["containers"][0]["args"] for p in release.pods().values()]
        return {one for each in arguments for one in each if one.startswith("-v=")}

    run("upgrade", *chart, "--set=logLevel=5", *wait)
    release.wait_available()
    assert level() == {"-v=5"}
    run("rollback", "second", *wait)
    release.wait_available()
    assert level() == {"-v=2"}
    real.create(pod("after", "plans", cpu="10m"))
    wait_ready(real, "after")
    run("uninstall", "second", *wait)
    kinds = (
        "deployments,services,configmaps,serviceaccounts,poddisruptionbudgets,roles,clusterroles"
    )
    own = "--selector=app.kubernetes.io/instance=second"
    left = real.kubectl("get", kinds, own, "--all-namespaces", "-o=name")
    assert left == ""
    real.clear()
    real.kubectl("delete", "namespace", "plans")


# Tokens


def accepted(cluster: Cluster, token: str) -> bool:
    """Whether the API server accepts a token."""
    path = cluster.plane.folder / "review.json"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    path.write_text(json.dumps(kind | {"spec": {"token": token}}))
    review = json.loads(cluster.kubectl("create", "-f", str(path), "-o=json"))
    return bool(review["status"].get("authenticated"))


def expiry(token: str) -> float:
    """When a token expires, in Unix time; it must live no longer than it was asked for."""
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] <= TOKEN_SECONDS
    return float(claims["exp"])


@pytest.mark.skipif(
    os.environ.get("BAYPLAN_LOAD") != "full", reason="a token lives ten minutes: BAYPLAN_LOAD=full"
)
def test_all_go_on_when_their_first_tokens_have_expired(
    new_cluster: Callable[..., Cluster], measured: Measured
) -> None:
    """The kubelet writes new ones; then the API server is restarted, and everybody asks anew."""
    with ExitStack() as stack:
        cluster = new_cluster(stack)
        cluster.plane.start_kube_scheduler()
        cluster.uncordon_others()
        cluster.kubectl("apply", "-k", str(DEPLOY / "overlays" / "with-controllers"))
        deployments = Deployment(cluster), Deployment(cluster, f"{NAME}-controllers")
        for each in deployments:
            each.wait_available()
            each.shorten_tokens()
            assert each.wait_leader()
        before = {
            name: (each, containers({name: replica}), each.token(name))
            for each in deployments
            for name, replica in each.pods().items()
        }
        first = [token for _, _, token in before.values()]
        assert all(accepted(cluster, token) for token in first)
        time.sleep(max(map(expiry, first)) + LEEWAY_SECONDS - time.time())
        wait_until(lambda: not any(accepted(cluster, t) for t in first), SOON, "their expiry", 1)

        for name, (each, container, token) in before.items():
            assert accepted(cluster, each.token(name))
            assert each.token(name) != token
            assert containers({name: each.pods()[name]}) == container
        begin = time.monotonic()
        wait_statuses(cluster, NAME, "expired")
        measured("a group placed and its statuses, all first tokens expired", since(begin))

        standby = {
            name: container
            for name, (each, container, _) in before.items()
            if not each.leader().startswith(name)
        }
        assert len(standby) == len(deployments)
        cluster.plane.parts["kube-apiserver"].kill()
        cluster.plane.parts["kube-apiserver"].start()
        for each in deployments:
            each.wait_available()
            assert each.wait_leader()
        wait_statuses(cluster, NAME, "asked-anew")
        for name, container in standby.items():
            replica = {n: p for each in deployments for n, p in each.pods().items() if n == name}
            assert containers(replica) == container


# Devices

DRIVER = "test-driver.cdi.k8s.io"


def pod_with_device(name: str, template: str) -> Json:
    """A Pod whose container uses a claim of its own."""
    using = pod_using(name, NAME, template=template)
    [container], [claim] = using["spec"]["containers"], using["spec"]["resourceClaims"]
    container["resources"]["claims"] = [{"name": claim["name"]}]
    return using


@pytest.fixture
def drivers(real: Cluster) -> Iterator[Devices]:
    """The DRA driver of Kubernetes' own tests on both nodes, with two devices each."""
    plane = real.plane
    assert isinstance(plane, KubeletControlPlane)
    devices = Devices(real)
    devices.device_class(expression=f'device.driver == "{DRIVER}"')
    running = []
    try:
        for node in plane.nodes:
            root = node.folder / "kubelet"
            (root / "plugins" / DRIVER).mkdir()
            flags = [f"--kubeconfig={node.kubeconfig}", f"--drivername={DRIVER}"]
            flags += [f"--node-name={node.name}", "--num-devices=2", f"--datadir={root}/plugins"]
            flags += [f"--plugin-registration-path={root}/plugins_registry"]
            command = node.enter("dra-test-driver", "kubelet-plugin", *flags)
            with (node.folder / "driver.log").open("wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))

        def published() -> bool:
            assert all(driver.poll() is None for driver in running), log.name
            slices = real.kubectl("get", "resourceslices", "-o=name").split()
            return len(slices) == len(running)

        wait_until(published, UP, "what the drivers have")
        yield devices
    finally:
        real.clear()
        devices.clear()
        for driver in running:
            if driver.poll() is None:
                os.kill(only_child(driver.pid), signal.SIGTERM)  # nsenter does not pass it on
                driver.wait(UP)


@pytest.mark.usefixtures("deployment")
def test_devices_of_a_real_driver_reach_the_containers(
    real: Cluster, drivers: Devices, measured: Measured
) -> None:
    begin = time.monotonic()
    drivers.template("one")
    names = real.create(*(pod_with_device(f"d{i}", "one") for i in range(4)))
    for name in names:
        wait_ready(real, name)
    measured("four Pods with a device each Ready, from the start of the drivers", since(begin))
    assert Counter(real.node_of(name) for name in names) == {"kubelet-a": 2, "kubelet-b": 2}
    assert not drivers.taken_twice()
    for name in names:
        [status] = real.pod(name)["status"]["containerStatuses"]
        prepared = [key for key in environ(status["containerID"]) if key.startswith("claim_")]
        assert len(prepared) == 1, "the driver's part of the container"

    real.create(pod_with_device("late", "one"))
    assert "cannot allocate all claims" in real.wait_condition("late")
    real.delete("d0")
    wait_ready(real, "late")
    assert not drivers.taken_twice()
