"""bayplan as deploy/ and charts/ run it: a Deployment, on nodes that run Pods."""

import json
import os
import signal
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Self

import yaml

from e2e.cluster import CONFIG, DEPLOY, NAME, SYSTEM, Cluster, Json
from e2e.provider import wait_until
from e2e.provider.golang import ROOT
from e2e.provider.kubelet.images import PREVIOUS_IMAGE
from e2e.provider.programs import HELM, program

CHART = ROOT / "charts" / "bayplan"

UP = 120.0
"""Seconds in which a Pod has started, or a replica leads, however busy the machine."""

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 600
"""The shortest life of a token that Kubernetes allows; the kubelet renews it after four fifths."""


class Deployment:
    """The replicas of a Deployment in a cluster; `apply` starts those of deploy/.

    Args:
        cluster: whose nodes run Pods.
        name: of the Deployment, its Lease and the label of its Pods.
        namespace: of all these.
    """

    def __init__(self, cluster: Cluster, name: str = NAME, namespace: str = SYSTEM) -> None:
        self.cluster = cluster
        self._name, self._namespace = name, namespace

    def apply(self) -> None:
        """Apply deploy/ as it is, and wait until all replicas are Ready."""
        self.cluster.kubectl("apply", "-k", str(DEPLOY))
        self._wait_rolled()

    def apply_previous(self, deploy: Path) -> None:
        """Apply another revision's deploy/, with its image, and wait for the same."""
        objects = list(yaml.safe_load_all(self.cluster.kubectl("kustomize", str(deploy))))
        for one in objects:
            if one["kind"] == "Deployment":
                [container] = one["spec"]["template"]["spec"]["containers"]
                container["image"] = PREVIOUS_IMAGE
        path = self.cluster.plane.folder / "previous.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        self.cluster.kubectl("apply", "-f", str(path))
        self._wait_rolled()

    def wait_available(self) -> None:
        """Wait until there are two replicas, and no other is on its way out."""
        wait_until(self._all_ready, UP, "two replicas Ready")

    def _all_ready(self) -> bool:
        pods = self.pods()
        return len(pods) == 2 and all(is_ready(pod) for pod in pods.values())

    def pods(self) -> dict[str, Json]:
        """The replicas as JSON, by name; those that are ending, too."""
        answer = self._kubectl("get", "pods", f"--selector=app={self._name}", "-o=json")
        return {pod["metadata"]["name"]: pod for pod in json.loads(answer)["items"]}

    def leader(self) -> str:
        """Who leads: the identity of a process, which begins with the name of its Pod; or ""."""
        lease = self._kubectl("get", "lease", self._name, "--ignore-not-found", "-o=json")
        spec = json.loads(lease)["spec"] if lease else {}
        return str(spec.get("holderIdentity") or "")

    def wait_leader(self, previous: str = "") -> str:
        """Wait until somebody else than `previous` leads; returns the identity."""

        def another() -> str:
            leader = self.leader()
            return leader if leader != previous else ""

        return wait_until(another, UP, f"a leader other than {previous!r}")

    def shorten_tokens(self) -> None:
        """Give the Pods tokens that live `TOKEN_SECONDS`, and wait until all are replaced."""
        token = {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}}
        authority = {"configMap": {"name": "kube-root-ca.crt"}}
        volume = {"name": "token", "projected": {"sources": [token, authority]}}
        mount = {"name": "token", "mountPath": TOKEN_FOLDER, "readOnly": True}
        [container] = next(iter(self.pods().values()))["spec"]["containers"]
        mounting = {"name": container["name"], "volumeMounts": [mount]}
        spec = {"volumes": [volume], "containers": [mounting]}
        patch = json.dumps({"spec": {"template": {"spec": spec}}})
        self._kubectl("patch", f"deployment/{self._name}", f"--patch={patch}")
        self._wait_rolled()

    def token(self, pod: str) -> str:
        """The token that a Pod finds at present."""
        return self._kubectl("exec", pod, "--", "cat", f"{TOKEN_FOLDER}/token")

    def log(self, pod: str, *flags: str) -> str:
        """The log of a Pod's present container, or as flags of ``kubectl logs`` say."""
        return self._kubectl("logs", pod, *flags)

    def lines(self, pod: str, event: str) -> list[Json]:
        """Lines of that text in the log of a Pod's present container."""
        log = self.log(pod).splitlines()
        lines = (json.loads(line) for line in log if line.startswith("{"))
        return [line for line in lines if line["msg"] == event]

    def roll(self) -> None:
        """Replace all replicas, as an upgrade does, and wait for the end of that."""
        self._kubectl("rollout", "restart", f"deployment/{self._name}")
        self._wait_rolled()

    def _wait_rolled(self) -> None:
        self._kubectl("rollout", "status", f"deployment/{self._name}", f"--timeout={UP:.0f}s")
        self.wait_available()

    def delete(self, pod: str) -> None:
        """Ask for the end of a Pod, and do not wait for it."""
        self._kubectl("delete", "pod", pod, "--wait=false")

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
            self._kubectl("patch", "configmap", name, f"--patch={patch}")

    def _kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl(*arguments, namespace=self._namespace)


class Leading:
    """Who led when, as the Lease tells: ``with Leading(cluster) as leading``, then `gaps`."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = cluster.plane.folder / "lease.json"
        watch = ("get", "lease", NAME, f"--namespace={SYSTEM}", "--watch", "-o=json")
        kubeconfig = f"--kubeconfig={cluster.plane.kubeconfig}"
        self._command = [str(program("kubectl")), kubeconfig, *watch]

    def __enter__(self) -> Self:
        output = self._path.open("w")
        self._watch = subprocess.Popen(self._command, stdout=output)
        output.close()
        wait_until(self._records, UP, "the Lease as it is")
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.kill()
        self._watch.wait()

    def gaps(self) -> list[float]:
        """Seconds from the last renewal by a leader to the first by the next one, in order."""
        found: list[float] = []
        holder, renewed = "", 0.0
        for spec in self._records():
            moment = datetime.fromisoformat(spec["renewTime"]).timestamp()
            if holder not in ("", spec["holderIdentity"]) and spec["holderIdentity"]:
                found.append(moment - renewed)
            holder, renewed = spec["holderIdentity"] or holder, moment
        return found

    def _records(self) -> list[Json]:
        """The Lease's spec at each of its changes; a change half written is left out."""
        text, found, place = self._path.read_text(), [], 0
        while (place := text.find("{", place)) >= 0:
            try:
                lease, place = json.JSONDecoder().raw_decode(text, place)
            except ValueError:
                break
            found.append(lease["spec"])
        return found


def helm(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run helm, which finds nothing of the machine's user and writes to `home`."""
    environment = {"HOME": str(home), "PATH": ""}
    return subprocess.run(
        [HELM.binary(), *arguments], env=environment, capture_output=True, text=True, check=False
    )


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


def environ(container: str) -> dict[str, str]:
    """The environment of a container's process, by the id that the Pod's status has."""
    pid = _processes(container.rpartition("/")[2])[0]
    entries = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


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
