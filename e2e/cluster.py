"""A cluster to try bayplan on: a control plane, deploy/ applied, and the scheduler as a process.

Invariants: every bayplan runs with the token of its ServiceAccount, so it may do what deploy/
grants and nothing else; and the API server notes (`audit.py`) what of that is used.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from e2e.belongings import OURS, Belongings, name_of, objects_of
from e2e.messages import as_if_alone
from e2e.provider import ControlPlane, NodeSpec, Part, create_nodes, token_kubeconfig, wait_until
from e2e.provider.golang import ROOT
from e2e.provider.process import Endpoint, StartError, free_port, unverified
from e2e.provider.programs import program

Json = dict[str, Any]

DEPLOY = ROOT / "deploy"
EVERYTHING = DEPLOY / "overlays" / "with-controllers"
"""deploy/ with the controllers and all CRDs."""
CONFIG = DEPLOY / "base" / "config.yaml"
SYSTEM = "kube-system"
NAME = "bayplan"
OTHER = "bayplan-other"
"""schedulerName for a scheduler beside the deployed one."""
READER, NOBODY = "pod-reader", "no-reader"
"""ServiceAccounts of the fixture ``users``."""
SOON = 120.0
"""Seconds in which a scheduler that works has reacted, however busy the machine: a backoff and what
starting takes, and far less than the five minutes after which every waiting Pod is tried anyway."""

_INSTALLED = ("get", "deployments", "-A", f"-l=app.kubernetes.io/name={NAME}", "-o=json")
_numbers = count()


class Bayplan(Part):
    """One scheduler process. `start` waits until it is ready, `stop` and `kill` end it.

    Args:
        cluster: where it schedules.
        config: its KubeSchedulerConfiguration.
        plugin_dirs: folders with plugins.
        kubeconfig: other credentials than the ServiceAccount's.
        ready: the path that tells that it has started.
        flags: more flags.
        serving: the flags about certificates; by default those of the cluster's own authority,
            with others its endpoint trusts whoever answers.
    """

    def __init__(
        self,
        cluster: "Cluster",
        config: Path,
        plugin_dirs: Iterable[Path] = (),
        kubeconfig: Path | None = None,
        ready: str = "/readyz",
        flags: Iterable[str] = (),
        serving: Iterable[str] | None = None,
    ) -> None:
        port = free_port()
        argv = [sys.executable, "-m", "bayplan", "run", f"--config={config}"]
        argv += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        argv += cluster.plane.serving_flags() if serving is None else serving
        argv += [f"--kubeconfig={kubeconfig or cluster.kubeconfig}", "-v=5"]
        argv += [f"--plugin-dir={folder}" for folder in plugin_dirs] + list(flags)
        log = cluster.plane.folder / f"bayplan-{next(_numbers)}.log"
        context = cluster.plane.context if serving is None else unverified()
        endpoint = Endpoint(f"https://127.0.0.1:{port}", context)
        super().__init__("bayplan", argv, log, endpoint, ready)

    def wait(self, timeout: float) -> int:
        """Wait until the process has ended by itself, and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def lines(self, event: str) -> list[Json]:
        """Lines of the log with that text."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{")
        return [line for line in lines if line["msg"] == event]

    def holds_what_the_api_server_has(self) -> bool:
        """Let it compare what it holds with a recount and with the API server (SIGUSR2)."""
        title = "Comparison with the API server"
        seen = len(self.lines(title))
        self.signal(signal.SIGUSR2)
        wait_until(lambda: len(self.lines(title)) > seen, SOON, "a comparison")
        compared, counted = self.lines(title)[-1], self.lines("Recount")[-1]
        sides = [found for key, found in compared.items() if key.startswith(("missing", "surplus"))]
        return not any([*sides, counted["columns"], counted["counters"]])

    def metric(self, name: str, /, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        text = self.endpoint.get("/metrics").decode()
        samples = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(s.rpartition(" ")[2]) for s in samples if all(w in s for w in wanted))


class Cluster:
    """A control plane with kwok and deploy/, and short ways to make and look at objects.

    In a cluster that is not ours alone, nodes of others are cordoned from `set_up` to `tear_down`:
    what is expected of a scheduler is expected of the nodes that a test makes. A borrowed cluster
    gets all of deploy/ with the CRDs, is refused if it has any of that, and is left as it was.

    Args:
        plane: the control plane.
        namespace: where Pods are made and looked for.
        deploy: what `set_up` makes in a cluster that is not borrowed.
        later: files of the objects that `make` makes later.

    Attributes:
        kubeconfig: file with the token of bayplan's ServiceAccount.
        others: how many nodes are not ours; they are rejected for every Pod.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str = "bayplan-e2e",
        deploy: Path = DEPLOY,
        later: Iterable[Path] = (),
    ) -> None:
        from kubernetes import client, config  # noqa: PLC0415  takes a second, not spent by all

        connect: Callable[[str], Any] = config.new_client_from_config
        self.plane = plane
        self.namespace = namespace
        self.api: Any = client.CoreV1Api(connect(str(plane.kubeconfig)))
        self._events: Any = client.EventsV1Api(self.api.api_client)
        self.kubeconfig = plane.folder / "bayplan.kubeconfig"
        self._cordoned: list[str] = []
        self.others = 0
        self._is_set_up = False
        self._schedulers: list[Bayplan] = []
        self._first = self._deployment(EVERYTHING if plane.borrowed else deploy)
        self._belongings = Belongings(
            self.kubectl, plane.folder, [*self._first, *objects_of(*later)]
        )

    def refuse_conflicts(self) -> None:
        """Refuse a borrowed cluster that has what is to be made, or another bayplan.

        Raises:
            StartError: it names what is there; nothing was changed.
        """
        if not self.plane.borrowed:
            return
        installed = json.loads(self.kubectl(*_INSTALLED))["items"]
        there = {name_of(one): None for one in [*installed, *self._belongings.there()]}
        if there:
            raise StartError(
                f"this cluster has {', '.join(there)} already: take another one, or remove that if "
                f"it is left over from a run that was killed (label {OURS}); nothing was changed"
            )

    def set_up(self) -> "Cluster":
        """Start what belongs to a cluster, make deploy/, and take the ServiceAccount's token.

        The Deployments get no replicas: bayplan runs as a process beside the cluster.

        Raises:
            StartError: as `refuse_conflicts`.
        """
        self.plane.start_controller_manager()
        self.refuse_conflicts()
        self._is_set_up = True
        self.plane.start_kwok()
        self._belongings.make(self._first)
        self.cordon_others()
        wait_until(self._has_service_account, SOON, "the namespace's ServiceAccount")
        token_kubeconfig(self.kubeconfig, self.plane.kubeconfig, self.token(NAME))
        return self

    def make(self, path: Path) -> None:
        """Make the objects of one of the files that were given as `later`."""
        self._belongings.make(objects_of(path))

    def tear_down(self) -> None:
        """End its schedulers, and leave nothing behind in a cluster that goes on."""
        for scheduler in self._schedulers:
            scheduler.kill()
        if not (self.plane.borrowed and self._is_set_up):
            return
        with ExitStack() as stack:  # the last comes first, and each although another one fails
            stack.callback(self.clear)
            stack.callback(self._belongings.remove)
            stack.callback(self.uncordon_others)

    def mend(self) -> None:
        """End its schedulers, start what was killed, and remove what the others look at."""
        for scheduler in self._schedulers:
            scheduler.kill()
        self._schedulers.clear()
        for part in self.plane.parts.values():
            if part.running:
                part.signal(signal.SIGCONT)
            else:
                part.start()
        self.clear()
        self.kubectl("delete", "lease", NAME, "--ignore-not-found", namespace=SYSTEM)
        self.kubectl("delete", "events", "--all", namespace=SYSTEM)

    def _deployment(self, deploy: Path) -> list[Json]:
        """The namespace, and deploy/ rendered, with no replicas."""
        objects = list(yaml.safe_load_all(self.kubectl("kustomize", str(deploy))))
        for one in objects:
            if one["kind"] == "Deployment":
                one["spec"]["replicas"] = 0
        if self.namespace != "default":
            namespace = {"apiVersion": "v1", "kind": "Namespace"}
            objects.insert(0, namespace | {"metadata": {"name": self.namespace}})
        return objects

    def _has_service_account(self) -> bool:
        accounts = self.kubectl("get", "serviceaccounts", "-o=name", namespace=self.namespace)
        return "serviceaccount/default" in accounts

    def cordon_others(self) -> None:
        """Cordon the nodes that are not ours, but for those that their owner has cordoned."""
        self.others = len(self._nodes(f"!{OURS}"))
        for name in self.open_nodes():
            self.patch_node(name, unschedulable=True)
            self._cordoned.append(name)

    def open_nodes(self) -> list[str]:
        """The nodes that are not ours and take Pods."""
        others = self._nodes(f"!{OURS}")
        return [n["metadata"]["name"] for n in others if not n["spec"].get("unschedulable")]

    def uncordon_others(self) -> None:
        """Undo `cordon_others`: these nodes count in messages, too."""
        for name in self._cordoned:
            self.patch_node(name, unschedulable=False)
        self._cordoned.clear()
        self.others = 0

    def token(self, account: str, namespace: str = SYSTEM) -> str:
        """A token of that ServiceAccount."""
        return self.kubectl("create", "token", account, "--duration=8h", namespace=namespace)

    @contextmanager
    def users(self, folder: Path, *names: str) -> Iterator[dict[str, Path]]:
        """Kubeconfigs in ``folder``: of the admin, and of new ServiceAccounts of the namespace."""
        found = {"admin": self.plane.kubeconfig}
        for name in names:
            self.kubectl("create", "serviceaccount", name, namespace=self.namespace)
            token = self.token(name, self.namespace)
            found[name] = token_kubeconfig(folder / name, self.plane.kubeconfig, token)
        yield found
        self.kubectl("delete", "serviceaccount", *names, namespace=self.namespace)

    def kubectl(self, *arguments: str, namespace: str = "", stdin: str | None = None) -> str:
        """Run kubectl as the admin and return what it prints.

        Raises:
            RuntimeError: it failed; the message is kubectl's.
        """
        where = [f"--namespace={namespace}"] if namespace else []
        run = subprocess.run(
            [program("kubectl"), f"--kubeconfig={self.plane.kubeconfig}", *where, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(run.stderr.strip())
        return run.stdout.strip()

    def put(self, *objects: Json, namespace: str = "") -> None:
        """Make or change objects, in the namespace of the Pods unless another one is given."""
        several = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", namespace=namespace or self.namespace, stdin=several)

    def apply(self, path: Path) -> None:
        """Apply a kustomization; or a file, or all in a folder, in the namespace of the Pods."""
        if (path / "kustomization.yaml").is_file():
            self.kubectl("apply", "-k", str(path))
        else:
            self.kubectl("apply", "-f", str(path), namespace=self.namespace)

    def explain(self, *arguments: str) -> Any:
        """What ``bayplan explain`` says of this cluster, read as the admin.

        Raises:
            subprocess.CalledProcessError: it failed; what it says is on stderr.
        """
        command = [sys.executable, "-m", "bayplan", "explain", "--output=json", *arguments]
        command += [f"--kubeconfig={self.plane.kubeconfig}", f"--namespace={self.namespace}"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    def config(self, name: str = NAME, **fields: Any) -> Path:
        """Write a configuration for schedulers that run beside the deployed one: no election.

        Args:
            name: schedulerName of its one profile.
            fields: of the configuration; ``profiles`` in place of that profile.
        """
        document = yaml.safe_load(CONFIG.read_text())
        document |= {
            "profiles": [{"schedulerName": name}],
            "leaderElection": {"leaderElect": False},
        }
        path = self.plane.folder / f"config-{next(_numbers)}.yaml"
        path.write_text(yaml.safe_dump(document | fields))
        return path

    def bayplan(self, config: Path | None = None, *plugin_dirs: Path, **more: Any) -> Bayplan:
        """A scheduler that is not started yet, with deploy/'s configuration unless given one."""
        made = Bayplan(self, config or CONFIG, plugin_dirs, **more)
        self._schedulers.append(made)
        return made

    # Objects

    def nodes(self, *specs: NodeSpec) -> None:
        """Create nodes and wait until they are Ready."""
        ours = [replace(spec, labels={**spec.labels, OURS: ""}) for spec in specs]
        create_nodes(self.plane.kubeconfig, ours)

    def patch_node(self, name: str, **spec: Any) -> None:
        """Change a node's spec."""
        self.api.patch_node(name, {"spec": spec}, _preload_content=False)

    def create(self, *pods: Json) -> list[str]:
        """Create Pods; returns their names."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._create, pods))
        return [pod["metadata"]["name"] for pod in pods]

    def _create(self, pod: Json) -> None:
        self.api.create_namespaced_pod(self.namespace, pod, _preload_content=False)

    def patch(self, name: str, **spec: Any) -> None:
        """Change a Pod's spec."""
        self.api.patch_namespaced_pod(name, self.namespace, {"spec": spec}, _preload_content=False)

    def bind(self, name: str, node: str) -> None:
        """Bind a Pod as another scheduler would."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.api.create_namespaced_pod_binding(name, self.namespace, body, _preload_content=False)

    def pod(self, name: str) -> Json:
        """A Pod as JSON."""
        pod = self.api.read_namespaced_pod(name, self.namespace, _preload_content=False)
        return json.loads(pod.data)  # type: ignore[no-any-return]

    def pods(self, namespace: str = "") -> dict[str, Json]:
        """All Pods of a namespace, by default that of the tests, as JSON by name."""
        answer = self.api.list_namespaced_pod(namespace or self.namespace, _preload_content=False)
        return {pod["metadata"]["name"]: pod for pod in json.loads(answer.data)["items"]}

    def delete(self, name: str) -> None:
        """Delete a Pod at once."""
        self.api.delete_namespaced_pod(
            name, self.namespace, grace_period_seconds=0, _preload_content=False
        )

    def clear(self, timeout: float = SOON) -> None:
        """Delete all Pods, and all nodes that were made here."""
        wait_until(self._delete_pods, timeout, "Pods to be deleted")
        self.api.delete_collection_node(label_selector=OURS, _preload_content=False)
        wait_until(lambda: not self.pods(), timeout, "the end of all Pods")
        wait_until(lambda: not self._nodes(OURS), timeout, "the end of all nodes")

    def _delete_pods(self) -> bool:
        """Delete all Pods; False where the API server gave up after a minute, with some left."""
        from kubernetes.client import ApiException  # noqa: PLC0415  as above

        try:
            self.api.delete_collection_namespaced_pod(
                self.namespace, grace_period_seconds=0, _preload_content=False
            )
        except ApiException as error:
            if error.status != HTTPStatus.GATEWAY_TIMEOUT:
                raise
            return False
        return True

    def _nodes(self, selector: str) -> list[Json]:
        answer = self.api.list_node(label_selector=selector, _preload_content=False)
        return json.loads(answer.data)["items"]  # type: ignore[no-any-return]

    # What became of a Pod

    def node_of(self, name: str) -> str:
        """The node of a Pod, or ""."""
        return self.pod(name)["spec"].get("nodeName", "")  # type: ignore[no-any-return]

    def wait_bound(self, *names: str, timeout: float = SOON) -> dict[str, str]:
        """Wait until the Pods have their nodes; returns them."""

        def nodes() -> dict[str, str] | None:
            pods = self.pods()
            found = {name: pods[name]["spec"].get("nodeName", "") for name in names}
            return found if all(found.values()) else None

        try:
            return wait_until(nodes, timeout, "Pods bound") or {}
        except TimeoutError as error:
            waiting = {name: self.condition(name) for name in names if not self.node_of(name)}
            raise TimeoutError(f"{error}; waiting: {waiting}") from None

    def condition(self, name: str) -> Json:
        """The Pod's condition PodScheduled, or an empty one."""
        conditions = self.pod(name)["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    def waits(self, name: str, text: str, reason: str = "Unschedulable") -> bool:
        """Whether the Pod waits for that reason, with ``text``, as `as_if_alone` has it."""
        condition = self.condition(name)
        said = as_if_alone(condition.get("message", ""), text, self.others)
        return condition.get("reason") == reason and text in said

    def wait_condition(self, name: str, reason: str = "Unschedulable", text: str = "") -> str:
        """Wait until the Pod `waits`; returns the message."""
        try:
            wait_until(lambda: self.waits(name, text, reason), SOON, f"{name} {reason}: {text}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {self.condition(name)}") from None
        return str(self.condition(name)["message"])

    def wait_refused(self, pod: Json) -> None:
        """Wait until such a Pod is not placed: objects of a CRD that has just come count then.

        The CRD is looked for again and again; what comes before it is seen is placed.
        """

        def is_refused() -> bool:
            name = self.create(pod)[0]
            try:
                wait_until(lambda: self.pod(name)["status"].get("conditions"), SOON, "an attempt")
                return not self.node_of(name)
            finally:
                self.delete(name)
                wait_until(lambda: name not in self.pods(), SOON, "its end")

        wait_until(is_refused, SOON, "the objects to count")

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, note) of the scheduler's events about the Pod that there is now."""
        uid = self.pod(name)["metadata"]["uid"]
        answer = self._events.list_namespaced_event(self.namespace, _preload_content=False)
        return [
            (event["reason"], event["note"])
            for event in json.loads(answer.data)["items"]
            if event["regarding"].get("uid") == uid
        ]

    def wait_event(self, name: str, reason: str, note: str) -> None:
        """Wait until there is such an event about the Pod, with `note` in its text."""

        def is_there() -> bool:
            notes = (text for r, text in self.events(name) if r == reason)
            return any(note in as_if_alone(text, note, self.others) for text in notes)

        wait_until(is_there, SOON, f"event {reason} of {name}: {note}")

    def overcommitted(self) -> dict[str, Json]:
        """Nodes whose Pods request more than they have: cpu (milli), memory (bytes), pods."""
        return overcommitted(self._nodes(OURS), self.pods().values())


def overcommitted(nodes: Iterable[Json], pods: Iterable[Json]) -> dict[str, Json]:
    """What is wrong on which node, counted from the API's objects alone."""
    from kubernetes.utils import quantity  # noqa: PLC0415

    parse: Callable[[str], Any] = quantity.parse_quantity
    left: dict[str, Json] = {
        node["metadata"]["name"]: {
            resource: parse(amount) for resource, amount in node["status"]["allocatable"].items()
        }
        for node in nodes
    }
    for pod in pods:
        on_node = left.get(pod["spec"].get("nodeName", ""))
        if on_node is None:
            continue
        on_node["pods"] -= 1
        for container in pod["spec"]["containers"]:
            for resource, amount in container.get("resources", {}).get("requests", {}).items():
                on_node[resource] = on_node.get(resource, 0) - parse(amount)
    short = {name: {r: a for r, a in rest.items() if a < 0} for name, rest in left.items()}
    return {name: rest for name, rest in short.items() if rest}


def pod(
    name: str, scheduler: str = NAME, labels: Mapping[str, str] | None = None, **more: Any
) -> Json:
    """A Pod with one container.

    ``cpu`` and ``memory`` are what it requests; everything else in `more` is a field of its spec.
    """
    requests = {key: more.pop(key) for key in ("cpu", "memory") if key in more}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container | {"resources": {"requests": requests}}],
        }
        | more,
    }
