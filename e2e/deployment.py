"""bayplan as deploy/ runs it: a Deployment, on nodes that run Pods."""

import json
import os
import signal
from pathlib import Path

import yaml

from e2e.cluster import CONFIG, DEPLOY, NAME, SYSTEM, Cluster, Json
from e2e.provider import wait_until

UP = 120.0
"""Seconds in which a Pod has started, or a replica leads, however busy the machine."""


class Deployment:
    """The replicas of deploy/ in a cluster; `apply` starts them.

    Args:
        cluster: whose nodes run Pods.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def apply(self) -> None:
        """Apply deploy/ as it is, and wait until all replicas are Ready."""
        self.cluster.kubectl("apply", "-k", str(DEPLOY))
        self.wait_available()

    def wait_available(self) -> None:
        """Wait until there are two replicas, and no other is on its way out."""
        wait_until(self._all_ready, UP, "two replicas Ready")

    def _all_ready(self) -> bool:
        pods = self.pods()
        return len(pods) == 2 and all(is_ready(pod) for pod in pods.values())

    def pods(self) -> dict[str, Json]:
        """The replicas as JSON, by name; those that are ending, too."""
        answer = self.cluster.kubectl(
            "get", "pods", f"--selector=app={NAME}", "-o=json", namespace=SYSTEM
        )
        return {pod["metadata"]["name"]: pod for pod in json.loads(answer)["items"]}

    def leader(self) -> str:
        """Who leads: the identity of a process, which begins with the name of its Pod; or ""."""
        lease = self.cluster.kubectl(
            *("get", "lease", NAME, "--ignore-not-found", "-o=json"), namespace=SYSTEM
        )
        spec = json.loads(lease)["spec"] if lease else {}
        return str(spec.get("holderIdentity") or "")

    def wait_leader(self, previous: str = "") -> str:
        """Wait until somebody else than `previous` leads; returns the identity."""

        def another() -> str:
            leader = self.leader()
            return leader if leader != previous else ""

        return wait_until(another, UP, f"a leader other than {previous!r}")

    def lines(self, pod: str, event: str) -> list[Json]:
        """Lines of that text in the log of a Pod's present container."""
        log = self.cluster.kubectl("logs", pod, namespace=SYSTEM).splitlines()
        lines = (json.loads(line) for line in log if line.startswith("{"))
        return [line for line in lines if line["msg"] == event]

    def roll(self) -> None:
        """Replace all replicas, as an upgrade does, and wait for the end of that."""
        self.cluster.kubectl("rollout", "restart", f"deployment/{NAME}", namespace=SYSTEM)
        arguments = ("rollout", "status", f"deployment/{NAME}", f"--timeout={UP:.0f}s")
        self.cluster.kubectl(*arguments, namespace=SYSTEM)
        self.wait_available()

    def delete(self, pod: str) -> None:
        """Ask for the end of a Pod, and do not wait for it."""
        self.cluster.kubectl("delete", "pod", pod, "--wait=false", namespace=SYSTEM)

    def signal(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to a Pod's process, from outside of its namespaces."""
        container = self.pods()[pod]["status"]["containerStatuses"][0]["containerID"]
        for pid in _processes(container.rpartition("/")[2]):
            os.kill(pid, number)

    def configure(self, **fields: object) -> None:
        """Change the mounted configuration in place: the kubelet brings it to the Pods."""
        document = yaml.safe_load(CONFIG.read_text()) | fields
        patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(document)}})
        for pod in self.pods().values():
            volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
            name = volumes["config"]["configMap"]["name"]
            self.cluster.kubectl("patch", "configmap", name, f"--patch={patch}", namespace=SYSTEM)


def is_ready(pod: Json) -> bool:
    """Whether a Pod's containers are ready."""
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True"


def static_pod(image: str, files: Path) -> Json:
    """The static Pod of deploy/, with the files in another folder of its node."""
    pod: Json = yaml.safe_load((DEPLOY / "static-pod.yaml").read_text())
    [container], [volume] = pod["spec"]["containers"], pod["spec"]["volumes"]
    container["image"] = image
    volume["hostPath"]["path"] = str(files)
    return pod


def _processes(container: str) -> list[int]:
    """Processes of a container by its id, which no other container anywhere has."""
    pids = []
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in group.read_text():
                pids.append(int(group.parent.name))
        except OSError:
            continue  # ended meanwhile
    assert pids, f"no process in {container}"
    return pids
