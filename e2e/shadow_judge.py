"""The judge of the shadow: beside kube-scheduler, both with its configuration, nothing may differ.

``make judge-shadow N=10000``, or ``python -m e2e.shadow_judge --decisions 2500 --seed 4``. Pods are
made one after the other, each when the one before is decided: so little is in flight (a Pod that
waits may be tried again at any time), and nearly all can be compared. With ``--at-once 50`` that
many are made together. ``--config FILE`` shows what another configuration would do.

Kinds of Pods: plain ones, node and Pod affinity, topology spread, local volumes that wait for their
Pod, devices, preemption, and some that fit nowhere.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from bayplan.client.connection import Connection
from bayplan.client.errors import NotFound
from bayplan.client.http import Http
from e2e.cluster import SOON, Cluster, pod
from e2e.devices import Devices, pod_using
from e2e.provider import NodeSpec, provide, wait_until
from e2e.provider.nodes import Taint
from e2e.shadows import Shadow
from e2e.storage import STATIC, Storage, pod_with

Json = dict[str, Any]

KUBE = "default-scheduler"
NODES = 30
ROUND = 120
"""Pods after which all are deleted."""
HIGH = "judge-high"
SMALL = "judge-small"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

APART = {"labelSelector": {"matchLabels": {"app": "a2"}}, "topologyKey": HOST}


class Load:
    """Pods of every kind, in rounds.

    Args:
        cluster: with kube-scheduler, and no nodes.
        seed: of the random numbers.

    Attributes:
        made: how many Pods of each kind.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self._random = cluster, random.Random(seed)
        self._http = Http(Connection.load(str(cluster.plane.kubeconfig)))
        self._pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        self._storage, self._gpus = Storage(cluster), Devices(cluster)
        self._number = 0
        self.made: Counter[str] = Counter()

    def set_up(self) -> None:
        """Nodes, classes and devices."""
        taint = Taint("busy", "yes", "PreferNoSchedule")
        specs = [
            NodeSpec(
                f"n{number:02}",
                cpu=str(6 + number % 4 * 2),
                memory=f"{24 + number % 3 * 8}Gi",
                zone=f"z{number % 3}",
                labels={"disk": "ssd" if number % 4 else "hdd", "rack": f"r{number % 6}"},
                taints=(taint,) if number % 7 == 0 else (),
                images={"registry.k8s.io/big:1": 500_000_000} if number % 5 == 0 else {},
            )
            for number in range(NODES)
        ]
        specs += [NodeSpec(f"small{i}", cpu="2", labels={"pool": SMALL}) for i in range(2)]
        self.cluster.nodes(*specs)
        self.cluster.kubectl("create", "priorityclass", HIGH, "--value=1000")
        self._storage.storage_class(STATIC, "kubernetes.io/no-provisioner")
        self._gpus.device_class()
        for number in range(0, NODES, 3):
            self._gpus.gpus(f"n{number:02}", 4)

    def clear(self) -> None:
        """Remove what `set_up` has made."""
        self.cluster.clear()
        self._storage.clear()
        self._gpus.clear()
        self.cluster.kubectl("delete", "priorityclass", HIGH)

    def rounds(self, pods: int, at_once: int = 1) -> None:
        """Make so many Pods, have them decided, and delete them."""
        while pods > 0:
            batch = self._round(min(pods, ROUND))
            pods -= len(batch)
            for start in range(0, len(batch), at_once):
                self.decided(*(make() for make in batch[start : start + at_once]))
            self._delete_all()

    def _round(self, count: int) -> list[Callable[[], Json]]:
        kinds = ["plain"] * 5 + ["affinity"] * 4 + ["spread"] * 4
        kinds += ["volumes", "devices", "preemption", "pending"]
        chosen = [self._random.choice(kinds) for _ in range(count)]
        self.made.update(chosen)
        batch: list[Callable[[], Json]] = []
        for kind in chosen:
            batch += getattr(self, f"_{kind}")(self._name(kind))
        return batch

    def some(self, number: int) -> list[Callable[[], Json]]:
        """A Pod of a kind that needs nothing else."""
        kind = ("plain", "affinity", "spread")[number % 3]
        return list(getattr(self, f"_{kind}")(self._name(kind)))

    def state(self) -> list[Json]:
        """Nodes and Pods as they are."""
        items: list[Json] = []
        for kind, path in (("Node", "/api/v1/nodes"), ("Pod", self._pods)):
            head = {"apiVersion": "v1", "kind": kind}
            items += [head | item for item in self.get(path)["items"]]
        return items

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def make(self, body: Json) -> Json:
        """Create a Pod; returns it."""
        return json.loads(self._http.post(self._pods, json.dumps(body).encode()))  # type: ignore[no-any-return]

    def decided(self, *pods: Json) -> None:
        """Wait until each has a node, has been refused one and waits for nothing, or is evicted."""
        for one in pods:
            path = f"{self._pods}/{one['metadata']['name']}"
            with suppress(NotFound):
                wait_until(lambda p=path: _is_decided(self.get(p)), SOON, path, 0.004)  # type: ignore[misc]

    def get(self, path: str) -> Json:
        """An object."""
        return json.loads(self._http.get(path))  # type: ignore[no-any-return]

    def _delete_all(self) -> None:
        self._http.request("DELETE", f"{self._pods}?gracePeriodSeconds=0")
        wait_until(lambda: not self.get(self._pods)["items"], SOON, "the end of all Pods")

    # Kinds

    def _some(self, name: str, **more: Any) -> Json:
        cpu = f"{self._random.randrange(50, 900)}m"
        memory = f"{self._random.randrange(64, 2000)}Mi"
        labels = {"app": f"a{self._random.randrange(6)}"}
        return pod(name, KUBE, labels, cpu=cpu, memory=memory, **more)

    def _plain(self, name: str) -> Iterator[Callable[[], Json]]:
        body = self._some(name)
        if self._random.random() < 0.3:
            body["spec"]["containers"][0]["image"] = "registry.k8s.io/big:1"
        yield lambda: self.make(body)

    def _affinity(self, name: str) -> Iterator[Callable[[], Json]]:
        key = self._random.choice([ZONE, HOST, "rack"])
        term = {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": key}
        wanted = {"weight": self._random.randrange(1, 100), "podAffinityTerm": term}
        ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        parts: list[Json] = [
            {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wanted]}},
            {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wanted]}},
            {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 40, "preference": ssd}
                    ]
                }
            },
            {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}},
        ]
        body = self._some(name, affinity=self._random.choice(parts))
        yield lambda: self.make(body)

    def _spread(self, name: str) -> Iterator[Callable[[], Json]]:
        body = self._some(name)
        body["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": self._random.randrange(1, 3),
                "topologyKey": self._random.choice([ZONE, HOST]),
                "whenUnsatisfiable": self._random.choice(["ScheduleAnyway", "DoNotSchedule"]),
                "labelSelector": {"matchLabels": body["metadata"]["labels"]},
            }
        ]
        yield lambda: self.make(body)

    def _volumes(self, name: str) -> Iterator[Callable[[], Json]]:
        for number in range(3):
            node = f"n{self._random.randrange(NODES):02}"
            self._storage.volume(f"{name}-{number}", node=node, local={"path": "/mnt"})
        self._storage.claim(name)
        yield lambda: self.make(pod_with(name, KUBE, name, cpu="100m"))

    def _devices(self, name: str) -> Iterator[Callable[[], Json]]:
        self._gpus.claim(name)
        yield lambda: self.make(pod_using(name, KUBE, name, cpu="100m"))

    def _preemption(self, name: str) -> Iterator[Callable[[], Json]]:
        here = {"nodeSelector": {"pool": SMALL}}
        for number in range(4):
            low = pod(f"{name}-{number}", KUBE, cpu="900m", **here)
            yield lambda low=low: self.make(low)  # type: ignore[misc]
        high = pod(name, KUBE, cpu="1500m", priorityClassName=HIGH, **here)
        yield lambda: self.make(high)

    def _pending(self, name: str) -> Iterator[Callable[[], Json]]:
        yield lambda: self.make(pod(name, KUBE, cpu=f"{self._random.randrange(20, 40)}"))


def _is_decided(one: Json) -> bool:
    if one["spec"].get("nodeName"):
        return True
    conditions = one["status"].get("conditions", ())
    failed = any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
    return failed and not one["status"].get("nominatedNodeName")


def main() -> int:
    """Run the judge; 1 if any decision differs.

    With a configuration of one's own differences are no fault, and the report is printed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end by then")
    parser.add_argument("--config", type=Path, help="judges in place of kube-scheduler's defaults")
    options = parser.parse_args()
    with ExitStack() as stack:
        plane = stack.enter_context(provide())
        cluster = Cluster(plane)
        stack.callback(cluster.tear_down)
        cluster.set_up()
        plane.start_kube_scheduler(_all_nodes(cluster))
        load = Load(cluster, options.seed)
        load.set_up()
        flags = [f"--config={options.config}"] if options.config else []
        shadow = Shadow(plane, cluster.kubeconfig, flags)
        stack.callback(shadow.kill)
        shadow.start()
        report: Json = {"compared": 0}
        began = time.monotonic()
        while report["compared"] < options.decisions:
            if time.monotonic() > began + options.seconds:
                break
            load.rounds(ROUND, options.at_once)
            report = shadow.settled()
            print(f"{report['compared']} decisions compared", flush=True)
        print(f"{time.monotonic() - began:.0f} s; Pods by kind: {dict(load.made)}")
        if options.config:
            command = [sys.executable, "-m", "bayplan", "shadow", "report"]
            return subprocess.call([*command, f"--server={shadow.pages.url}"])
        return _said(report)


def _all_nodes(cluster: Cluster) -> Any:
    path = cluster.plane.folder / "all-nodes.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(head + "percentageOfNodesToScore: 100\n")
    return path


def _said(report: Json) -> int:
    print(f"{report['agreed']} of {report['compared']} decisions are alike: {report['outcomes']}")
    print(f"not compared: {report.get('notCompared', {})}")
    for one in report.get("differences", ()):
        print(json.dumps(one))
    return int(report["agreed"] != report["compared"])


if __name__ == "__main__":
    sys.exit(main())
