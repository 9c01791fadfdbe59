"""A recording of a live run with groups, a Queue, devices and preemption, replayed.

What happens is made in steps, and each step is over before the next one: so nothing is in flight,
and the replay has to come to every verdict of the live run. Nodes are not compared here: among
equally good ones a cluster chooses at random. They are by the shadow, on the state of each moment.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from bayplan.recordings.file import RecordingReader, lines_of
from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.devices import Devices, pod_using
from e2e.provider import NodeSpec, wait_until
from e2e.test_groups import LABEL
from e2e.test_record import known, recording
from e2e.test_tenants import CRDS, PROFILE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

MEMORY = "6Gi"
"""Twice that is above the limit of the Queue."""


@pytest.fixture
def config(cluster: Cluster) -> Iterator[Path]:
    """A profile with groups and Queues, their CRDs, and a Queue for all Pods of the test."""
    cluster.kubectl("apply", *CRDS)
    cluster.kubectl("wait", "--for=condition=Established", *CRDS, "--timeout=300s")
    names = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    spec = {"namespaceSelector": names, "limit": {"memory": "8Gi"}}
    head = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "all"}}
    cluster.put(head | {"spec": spec})
    yield cluster.config(profiles=[PROFILE])
    cluster.clear()
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)
    cluster.kubectl("delete", "queue", "all")


class Run:
    """Makes Pods and sees what becomes of them."""

    def __init__(self, cluster: Cluster, devices: Devices) -> None:
        self.cluster, self._devices = cluster, devices

    def gang(self, name: str, minimum: int, cpu: str, pods: int) -> list[str]:
        """A PodGroup, and so many Pods of it; returns their names."""
        spec = {"minMember": minimum}
        head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        self.cluster.put(head | {"metadata": {"name": name}, "spec": spec})
        large = {"nodeSelector": {"pool": "large"}}
        made = (pod(f"{name}-{i}", OTHER, {LABEL: name}, cpu=cpu, **large) for i in range(pods))
        return list(self.cluster.create(*made))

    def device(self, name: str) -> str:
        """A Pod with a claim of its own name."""
        self._devices.claim(name)
        [made] = self.cluster.create(pod_using(name, OTHER, name))
        return made

    def pod(self, name: str, **more: Any) -> str:
        """A Pod."""
        [made] = self.cluster.create(pod(name, OTHER, **more))
        return made

    def everything(self) -> None:
        """What the replay has to repeat."""
        cluster, wait = self.cluster, self.cluster.wait_condition
        cluster.nodes(*(NodeSpec(name, cpu="4", labels={"pool": "large"}) for name in ("r1", "r2")))
        cluster.nodes(NodeSpec("r3", cpu="2", labels={"pool": "small"}))
        self._devices.gpus("r1", 1)
        cluster.wait_bound(*self.gang("fits", 3, "1", 3))
        later = self.gang("later", 3, "2", 3)
        for name in later:
            wait(name)
        for name in self.gang("short", 4, "1", 3):
            wait(name, reason="WaitingForMembers")
        for name in self.gang("never", 2, "9", 2):
            wait(name)
        cluster.wait_bound(self.device("device-0"))
        wait(self.device("device-1"))
        wait(self.device("device-2"))
        cluster.wait_bound(self.pod("memory-0", memory=MEMORY))
        wait(self.pod("memory-1", memory=MEMORY), reason="QueueLimit")
        small = {"nodeSelector": {"pool": "small"}}
        cluster.wait_bound(self.pod("low-0", cpu="1", **small))
        cluster.wait_bound(self.pod("low-1", cpu="1", priorityClassName="e2e-mid", **small))
        cluster.wait_bound(self.pod("high", cpu="1", priorityClassName="e2e-vip", **small))
        for name in ("fits-0", "fits-1", "fits-2"):
            cluster.delete(name)
        cluster.wait_bound(*later)
        cluster.delete("memory-0")
        cluster.wait_bound("memory-1")
        wait(self.pod("memory-2", memory=MEMORY), reason="QueueLimit")
        cluster.delete("device-0")
        wait_until(lambda: self._bound("device-1", "device-2"), SOON, "a device for one of them")

    def _bound(self, *names: str) -> bool:
        return any("nodeName" in self.cluster.pod(name)["spec"] for name in names)

    def waiting(self) -> dict[str, str]:
        """What is said of the Pods without a node."""
        there = self.cluster.pods()
        names = [name for name, one in there.items() if "nodeName" not in one["spec"]]
        keys = {name: f"{self.cluster.namespace}/{name}" for name in names}
        return {keys[name]: self.cluster.condition(name)["message"] for name in names}


def live(path: Path) -> tuple[list[str], list[str]]:
    """The Pods of a recording that were bound, and those that were evicted, in order."""
    bound, evicted = list[str](), list[str]()
    for line in lines_of([RecordingReader(path)]):
        if line.kind != "Pod" or line.type == "DELETED":
            continue
        obj = json.loads(bytes(line.object))
        key = "{namespace}/{name}".format_map(obj["metadata"])
        if obj["spec"].get("nodeName") and key not in bound:
            bound.append(key)
        conditions = obj.get("status", {}).get("conditions", ())
        if any(c["type"] == "DisruptionTarget" for c in conditions) and key not in evicted:
            evicted.append(key)
    return bound, evicted


def told(path: Path, what: str) -> list[str]:
    """The Pods of a result that were ``what``, in order."""
    text = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
    lines: list[Json] = [msgspec.json.decode(line) for line in text.splitlines()]
    return [line[what] for line in lines if what in line]


def run(*arguments: str) -> Json:
    """The JSON that a command prints."""
    command = [sys.executable, "-m", "bayplan", *arguments, "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer: Json = json.loads(ran.stdout)
    return answer


def test_groups_queues_devices_and_preemption_replay_to_the_live_verdicts(
    cluster: Cluster,
    config: Path,
    devices: Devices,
    start: Callable[..., Bayplan],
    tmp_path: Path,
) -> None:
    start(config)
    path, result, again = (tmp_path / name for name in ("day.zst", "result.zst", "again.zst"))
    happens = Run(cluster, devices)
    with recording(cluster, path, f"--config={config}") as process:
        happens.everything()
        waiting = happens.waiting()
        wait_until(lambda: recorded(path) == waiting, SOON, "all of it in the recording")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
    bound, evicted = live(path)
    replayed = run("replay", str(path), f"--config={config}", f"--result={result}")
    assert replayed["pending"] == waiting
    assert told(result, "evicted") == evicted == [f"{cluster.namespace}/low-0"]
    assert sorted(told(result, "bound")) == sorted(bound)
    run("replay", str(path), f"--config={config}", f"--result={again}")
    assert result.read_bytes() == again.read_bytes()


def recorded(path: Path) -> dict[str, str]:
    """What a recording says at its end of Pods without a node."""
    said = {}
    for key, obj in known(path)["Pod"].items():
        pod = json.loads(obj.body)
        if "nodeName" not in pod["spec"]:
            conditions = pod.get("status", {}).get("conditions", ())
            said[key] = "".join(c["message"] for c in conditions if c["type"] == "PodScheduled")
    return said
