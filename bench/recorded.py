"""`python -m bench.recorded`: how large the recording of a real cluster is, for each Pod.

    python -m bench.recorded --deployments 20 --replicas 50

A control plane (`e2e.provider`) with kwok nodes, kube-scheduler and the controllers of Kubernetes.
Deployments make Pods as users have them, with labels, environment, probes, volumes and a
ServiceAccount; they run, and are deleted one Deployment after the other. The recorder sees all of
it. Figures are of what comes after the first list.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from e2e.cluster import SOON, Cluster
from e2e.provider import NodeSpec, provide, wait_until

from bayplan.recordings.file import RecordingReader

Json = dict[str, Any]


def main(
    deployments: Annotated[int, typer.Option(min=1)] = 10,
    replicas: Annotated[int, typer.Option(min=1)] = 50,
    nodes: Annotated[int, typer.Option(min=1)] = 50,
) -> None:
    """Record some Deployments and say how many bytes each Pod took."""
    with ExitStack() as stack:
        plane = stack.enter_context(provide())
        cluster = Cluster(plane)
        stack.callback(cluster.tear_down)
        cluster.set_up()
        plane.start_kube_scheduler()
        zones = (f"eu-1{letter}" for letter in "abc" * nodes)
        cluster.nodes(*(NodeSpec(f"node-{i:03}", cpu="32", zone=next(zones)) for i in range(nodes)))
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "cluster.zst"
        argv = [sys.executable, "-m", "bayplan", "record", str(path)]
        argv.append(f"--kubeconfig={cluster.kubeconfig}")
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as recorder:
            assert recorder.stdout is not None
            recorder.stdout.readline()
            before = path.stat().st_size
            raw = _live(cluster, deployments, replicas)
            recorder.send_signal(signal.SIGTERM)
            recorder.communicate()
        _said(path, path.stat().st_size - before, deployments * replicas, raw)


def _live(cluster: Cluster, deployments: int, replicas: int) -> int:
    """Have the Pods come, run and go; bytes of one of them as the API server sends it."""
    for number in range(deployments):
        cluster.put(_deployment(f"service-{number}", replicas))

    def run() -> int:
        phases = Counter(one["status"]["phase"] for one in cluster.pods().values())
        return phases["Running"] == deployments * replicas

    wait_until(run, SOON * 5, "all Pods to run", 2.0)
    size = len(json.dumps(next(iter(cluster.pods().values())), separators=(",", ":")))
    for number in range(deployments):
        name = f"service-{number}"
        cluster.kubectl("delete", "deployment", name, namespace=cluster.namespace)
    wait_until(lambda: not cluster.pods(), SOON * 5, "the end of all Pods", 2.0)
    return size


def _deployment(name: str, replicas: int) -> Json:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "team": "web"}
    get = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    secret = {"secretKeyRef": {"name": f"{name}-db", "key": "password"}}
    main = {
        "name": "main",
        "image": f"registry.example.com/shop/{name}:v1.27.3",
        "args": [f"--config=/etc/{name}/config.yaml", "--log-level=info"],
        "env": [{"name": f"SETTING_{i}", "value": "x" * 20} for i in range(12)]
        + [{"name": "DB_PASSWORD", "valueFrom": secret}],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "readinessProbe": get,
        "livenessProbe": get,
        "volumeMounts": [{"name": "config", "mountPath": f"/etc/{name}"}],
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    spec = {
        "containers": [main],
        "volumes": [{"name": "config", "emptyDir": {}}],
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": 30,
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    return head | {"spec": whole}


def _said(path: Path, size: int, pods: int, raw: int) -> None:
    lines: Counter[str] = Counter()
    text = 0
    ready = False
    for line in RecordingReader(path).lines():
        ready = ready or line.type == "READY"
        if ready and line.kind == "Pod":
            lines[line.type] += 1
            text += len(bytes(line.object))
    print(f"{pods} Pods: {size / pods:.0f} bytes a Pod, {text / pods:.0f} before compression")
    print(f"lines of Pods: {dict(lines)}, {sum(lines.values()) / pods:.1f} a Pod")
    print(f"a running Pod as the API server sends it: {raw} bytes")


if __name__ == "__main__":
    typer.run(main)
