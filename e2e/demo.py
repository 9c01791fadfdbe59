"""`make run`: bayplan on a real control plane, placing the Pods of examples/ as one watches.

With a terminal it goes on until Ctrl-C, which ends all that it started; Pods made meanwhile show,
too. Without one, or with ONCE=1, it ends by itself: with 0 when every sample Pod is where
examples/expected.yaml says, else with 1 and the differences.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from e2e.cluster import EVERYTHING, Bayplan, Cluster, Json
from e2e.provider import NodeSpec, StartError, Taint, provide
from e2e.provider.golang import ROOT, BuildError
from e2e.provider.programs import program
from e2e.provider.waiting import say, step

EXAMPLES = ROOT / "examples"
LENT, OWNED = EXAMPLES / "lending" / "borrower.yaml", EXAMPLES / "lending" / "owner.yaml"
BORROWER, OWNER, BORROWED = "demo-batch", "demo-research", 3
"""The namespaces of LENT and OWNED, and how many Pods the borrower has before the owner comes."""
PATIENCE = 300.0
"""Seconds until the Pods must be where they are expected."""
REFRESH = 0.25
SHOWN = 5.0
"""Seconds for which one sees what is borrowed before it is taken back."""
ZONE = "topology.kubernetes.io/zone"


def main() -> None:
    """Run the demo; see the module's docstring."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    once = bool(os.environ.get("ONCE")) or not sys.stdout.isatty()
    try:
        with provide() as plane:
            namespace = "bayplan-demo" if plane.borrowed else "default"
            cluster = Cluster(plane, namespace, EVERYTHING, (LENT, OWNED))
            ask(cluster)
            try:
                bayplan = prepare(cluster)
                sys.exit(run_once(cluster, bayplan) if once else watch(cluster, bayplan))
            finally:
                cluster.tear_down()
    except KeyboardInterrupt:
        say("ended")
    except (LookupError, StartError, BuildError) as error:
        sys.exit(f"error: {error.args[0]}")


def ask(cluster: Cluster) -> None:
    """Ask before anything is changed in a cluster of somebody else; CORDON=yes is an answer.

    Raises:
        StartError: the cluster has what the demo makes, or the answer is no.
    """
    cluster.refuse_conflicts()
    nodes = cluster.open_nodes()
    if not (cluster.plane.borrowed and nodes):
        return
    question = (
        f"until the demo ends, these nodes are cordoned: {', '.join(nodes)}; and new Pods of "
        "others may be put on the nodes of the demo, which run nothing"
    )
    answer = os.environ.get("CORDON", "")
    if not answer and sys.stdin.isatty():
        answer = input(f"{question}. Go on? [y/N] ")
    if answer.lower() not in ("y", "yes"):
        raise StartError(f"{question}; CORDON=yes agrees; nothing was changed")


def prepare(cluster: Cluster) -> Bayplan:
    """Bring up all there is to watch: nodes, deploy/, the scheduler, and then the Pods."""
    with step("setting up the cluster"):
        cluster.set_up()
    nodes = list(read_nodes(EXAMPLES / "nodes.yaml"))
    with step(f"making {len(nodes)} nodes"):
        cluster.nodes(*nodes)
    bayplan = cluster.bayplan()
    cluster.plane.parts["bayplan"] = bayplan
    with step("starting bayplan as its ServiceAccount"):
        bayplan.start()
    cluster.apply(EXAMPLES / "pods")
    return bayplan


def read_nodes(path: Path) -> Iterator[NodeSpec]:
    """The nodes that a file asks for."""
    for entry in yaml.safe_load(path.read_text()):
        taints = tuple(Taint(**taint) for taint in entry.pop("taints", ()))
        yield NodeSpec(**entry, taints=taints)


def looks(cluster: Cluster, shown: float = 0.0) -> Iterator[dict[str, Json]]:
    """The Pods each time that one looks; those of tenants have names with their namespace.

    Once nothing else asks for GPUs, one tenant borrows all that are left. ``shown`` seconds after
    it has them, the other one comes for its own.
    """

    def look(*namespaces: str) -> dict[str, Json]:
        tenants = ((name, cluster.pods(name)) for name in namespaces)
        theirs = {f"{name}/{key}": pod for name, pods in tenants for key, pod in pods.items()}
        return cluster.pods() | theirs

    while not (pods := look()).get("training", {}).get("spec", {}).get("nodeName"):
        yield pods
    cluster.make(LENT)
    while of_tenant(BORROWER, pods := look(BORROWER))["placed"] < BORROWED:
        yield pods
    until = time.monotonic() + shown
    while time.monotonic() < until:
        yield look(BORROWER)
    cluster.make(OWNED)
    while True:
        yield look(BORROWER, OWNER)


def of_tenant(tenant: str, pods: Mapping[str, Json]) -> dict[str, int]:
    """How many Pods of the tenant have nodes, and how many wait."""
    theirs = [pod for name, pod in pods.items() if name.startswith(f"{tenant}/")]
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in theirs)
    return {"placed": placed, "waiting": sum(bool(reason(pod)) for pod in theirs)}


def watch(cluster: Cluster, bayplan: Bayplan) -> int:
    """Show the Pods until Ctrl-C."""
    console = Console()
    say(f"log: {bayplan.log}")
    say(f"metrics: curl {' '.join(cluster.plane.curl_options())} {bayplan.endpoint.url}/metrics")
    at = f"--server {bayplan.endpoint.url} --insecure-skip-tls-verify"
    say(f"why a Pod waits: bayplan why too-big {at}")
    say(f"the page of this cluster: bayplan view {at}")
    say(f"kubectl, if you have none: {program('kubectl')}")
    print(f"export KUBECONFIG={cluster.plane.kubeconfig}   # Ctrl-C here ends all", flush=True)
    with Live(console=console, auto_refresh=False) as live:
        for pods in looks(cluster, SHOWN):
            if not bayplan.running:
                break
            live.update(table(pods, times(bayplan)), refresh=True)
            time.sleep(REFRESH)
    say(f"bayplan has ended; see {bayplan.log}")
    return 1


def run_once(cluster: Cluster, bayplan: Bayplan) -> int:
    """Wait until the Pods are where they are expected, show them, and say what differs."""
    expected = yaml.safe_load((EXAMPLES / "expected.yaml").read_text())
    zones = {node.name: node.zone for node in read_nodes(EXAMPLES / "nodes.yaml")}
    deadline = time.monotonic() + PATIENCE
    for pods in looks(cluster):
        wrong = differences(expected, pods, zones)
        if not wrong or time.monotonic() > deadline or not bayplan.running:
            break
        time.sleep(REFRESH)
    Console().print(table(pods, times(bayplan)))
    for line in wrong:
        print(line)
    if wrong:
        print(bayplan.tail())  # the file is gone with the control plane
    print("not as expected" if wrong else f"all {len(pods)} Pods are as expected")
    return 1 if wrong else 0


def differences(expected: Json, pods: Mapping[str, Json], zones: Mapping[str, str]) -> list[str]:
    """What of `expected` (examples/expected.yaml) is not so, a line each.

    Args:
        expected: the content of examples/expected.yaml.
        pods: the Pods, by name.
        zones: zones by node.
    """
    lines = [f"{name}: does not exist" for name in _named(expected) if name not in pods]
    if lines:
        return lines
    nodes = {name: pod["spec"].get("nodeName", "") for name, pod in pods.items()}
    for name, node in expected["nodes"].items():
        if nodes[name] != node:
            lines.append(f"{name}: expected on {node}, is {_where(pods[name])}")
    lines += [
        f"{name}: expected on a node, is {_where(pods[name])}"
        for name in expected["placed"]
        if not nodes[name]
    ]
    for group in expected["apart"]:
        found = [zones.get(nodes[name], "") for name in group]
        if len(set(found)) != len(group) or "" in found:
            where = ", ".join(_where(pods[name]) for name in group)
            lines.append(f"{', '.join(group)}: expected in different zones, are {where}")
    for name, words in expected["waiting"].items():
        if nodes[name] or words not in reason(pods[name]):
            lines.append(f"{name}: expected to wait ({words}), is {_where(pods[name])}")
    for tenant, numbers in expected["tenants"].items():
        if (there := of_tenant(tenant, pods)) != numbers:
            lines.append(f"{tenant}: expected {numbers}, found {there}")
    return lines


def _named(expected: Json) -> list[str]:
    apart = [name for group in expected["apart"] for name in group]
    return [*expected["nodes"], *expected["placed"], *apart, *expected["waiting"]]


def _where(pod: Json) -> str:
    node = pod["spec"].get("nodeName")
    return f"on {node}" if node else f"waiting ({reason(pod) or 'not tried yet'})"


def reason(pod: Json) -> str:
    """Why the Pod waits, or ""."""
    if pod["spec"].get("nodeName"):
        return ""
    if gates := pod["spec"].get("schedulingGates"):
        return "gated by " + ", ".join(gate["name"] for gate in gates)
    conditions = pod["status"].get("conditions", [])
    found = (c for c in conditions if c["type"] == "PodScheduled")
    return next((c.get("message") or c.get("reason", "") for c in found), "")


def times(bayplan: Bayplan) -> dict[str, float]:
    """Milliseconds from the beginning of the decision to the end of the binding, by Pod."""
    lines = bayplan.lines("Successfully bound pod to node")
    return {line["pod"]: line["ms"] for line in lines}


def table(pods: Mapping[str, Json], milliseconds: Mapping[str, float]) -> Table:
    """The Pods as they are."""
    made = Table("Pod", "Node", "Took", "Waits because", expand=True)
    for name, pod in sorted(pods.items(), key=_age):
        node = pod["spec"].get("nodeName", "")
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        took = f"{milliseconds[key]:.0f} ms" if node and key in milliseconds else ""
        made.add_row(name, node, took, _in_short(reason(pod)))
    return made


def _in_short(message: str) -> str:
    """The part about the nodes, without what preemption has to say."""
    return message.partition(". ")[0]


def _age(entry: tuple[str, Any]) -> tuple[str, str]:
    name, pod = entry
    return pod["metadata"]["creationTimestamp"], name


if __name__ == "__main__":
    main()
