"""Recordings of a real cluster: what a recorder sees, also when it is killed and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bayplan.recordings.file import RecordingReader, lines_of
from bayplan.recordings.recorder import Known, take
from e2e.cluster import CONFIG, NAME, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, token_kubeconfig, wait_until

pytestmark = pytest.mark.e2e


@contextmanager
def recording(cluster: Cluster, path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A recorder that has its first list."""
    command = [sys.executable, "-m", "bayplan", "record", str(path), *options]
    command.append(f"--kubeconfig={cluster.plane.kubeconfig}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("recording: ")
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(SOON)


def known(path: Path) -> Known:
    """The objects at the end of a recording."""
    reader = RecordingReader(path)
    objects: Known = {kind.id: {} for kind in reader.header.kinds}
    for line in lines_of([reader]):
        take(objects, line)
    return objects


def story(path: Path, name: str) -> list[tuple[str, bool]]:
    """The lines of a Pod: their type, and whether it has a node."""
    told = []
    for line in lines_of([RecordingReader(path)]):
        obj = json.loads(bytes(line.object) or b"{}")
        if line.kind == "Pod" and obj["metadata"]["name"] == name:
            told.append((str(line.type), bool(obj.get("spec", {}).get("nodeName"))))
    return told


def test_the_life_of_a_pod_is_recorded(cluster: Cluster, deployed: Bayplan, tmp_path: Path) -> None:
    del deployed
    cluster.nodes(NodeSpec("record-n1", cpu="4"))
    path = tmp_path / "day.zst"
    with recording(cluster, path) as process:
        cluster.create(pod("record-a", NAME, cpu="1"), pod("record-big", NAME, cpu="900"))
        cluster.wait_bound("record-a")
        cluster.wait_condition("record-big")
        cluster.delete("record-a")
        wait_until(lambda: ("DELETED", False) in story(path, "record-a"), SOON, "its end")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
    lines = story(path, "record-a")
    assert lines[0] == ("ADDED", False)
    assert ("MODIFIED", True) in lines
    body = known(path)["Pod"][f"{cluster.namespace}/record-big"].body
    [condition] = json.loads(body)["status"]["conditions"]
    assert "Insufficient cpu" in condition["message"]


def test_a_recorder_that_was_killed_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    cluster.nodes(NodeSpec("record-n2", cpu="4"))
    path = tmp_path / "day.zst"
    key = f"{cluster.namespace}/record-"
    with recording(cluster, path) as process:
        cluster.create(pod("record-1", "nobody"), pod("record-2", "nobody"))
        wait_until(lambda: f"{key}2" in known(path)["Pod"], SOON, "a line")
        process.kill()
        process.wait(SOON)
    cluster.delete("record-1")
    cluster.create(pod("record-3", "nobody"))
    with recording(cluster, path, "--resume"):
        wait_until(lambda: f"{key}3" in known(path)["Pod"], SOON, "a line")
    there = known(path)["Pod"]
    assert f"{key}1" not in there
    assert {f"{key}2", f"{key}3"} <= there.keys()
    assert "GAP" in [line.type for line in lines_of([RecordingReader(path)])]


def test_kinds_that_may_not_be_read_are_said(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("create", "serviceaccount", "recorder", namespace=cluster.namespace)
    rights = ("--verb=get,list,watch", "--resource=nodes,namespaces")
    cluster.kubectl("create", "clusterrole", "recorder", *rights)
    account = f"--serviceaccount={cluster.namespace}:recorder"
    cluster.kubectl("create", "clusterrolebinding", "recorder", "--clusterrole=recorder", account)
    user = tmp_path / "recorder.kubeconfig"
    token = cluster.token("recorder", cluster.namespace)
    token_kubeconfig(user, cluster.plane.kubeconfig, token)
    command = [sys.executable, "-m", "bayplan", "record", str(tmp_path / "day.zst")]
    command += [f"--kubeconfig={user}", "--duration=0"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SOON)
        assert ran.returncode == 2
        assert "pods is forbidden" in ran.stderr
        rights = ("--verb=get,list,watch", "--resource=nodes,namespaces,pods")
        cluster.kubectl("delete", "clusterrole", "recorder")
        cluster.kubectl("create", "clusterrole", "recorder", *rights)
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SOON)
        assert ran.returncode == 0, ran.stderr
        assert "kind PersistentVolumeClaim is not recorded: " in ran.stderr
    finally:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", "recorder")
        cluster.kubectl("delete", "serviceaccount", "recorder", namespace=cluster.namespace)


def test_a_replay_gives_the_verdicts_of_the_live_run(
    cluster: Cluster, deployed: Bayplan, tmp_path: Path
) -> None:
    """Every decision is one of the best in its state; who waits, waits again."""
    del deployed
    cluster.nodes(*(NodeSpec(f"verdict-n{i}", cpu="4") for i in range(4)))
    path = tmp_path / "day.zst"
    small = [f"verdict-{i}" for i in range(12)]
    with recording(cluster, path) as process:
        for name in small:
            cluster.create(pod(name, NAME, cpu="1"))
            cluster.wait_bound(name)
        cluster.create(pod("verdict-big", NAME, cpu="5"))
        cluster.wait_condition("verdict-big")
        for name in small[:3]:
            cluster.delete(name)
        cluster.create(pod("verdict-late", NAME, cpu="2"))
        cluster.wait_bound("verdict-late")
        key = f"{cluster.namespace}/verdict-late"
        wait_until(lambda: b"nodeName" in known(path)["Pod"][key].body, SOON, "its binding")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
    live = cluster.condition("verdict-big")["message"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bayplan", *arguments, "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    judged = run("compare", "recorded", str(CONFIG), "--recording", str(path), "--scheduler", NAME)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    report = json.loads(judged.stdout)
    assert report["agreed"] == report["compared"] >= len(small) + 1
    replayed = run("replay", str(path), "--config", str(CONFIG))
    assert replayed.returncode == 0, replayed.stderr
    outcome = json.loads(replayed.stdout)
    assert outcome["summary"]["bound"] == len(small) + 1
    assert outcome["pending"] == {f"{cluster.namespace}/verdict-big": live}
