"""The client and the reflectors on a real API server."""

from __future__ import annotations

import json
import signal
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

from bayplan.api.kinds import KINDS, NODE, POD, Kind
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod, decode_pod
from bayplan.client import errors
from bayplan.client.connection import MERGE_PATCH, Connection
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.event_recorder import EventRecorder
from bayplan.client.http import Http
from bayplan.client.leader import LeaderElector, LeaseLock
from bayplan.client.request import Lane
from bayplan.client.writer import Writer
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.informers import backoff, reflector
from bayplan.informers.factory import Informers
from bayplan.informers.reflector import Reflector
from e2e.provider import ControlPlane, provide, wait_until
from e2e.provider.pki import Authority

pytestmark = pytest.mark.e2e

NAMESPACE = "client-e2e"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
names = (f"pod-{i}" for i in count())


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with provide() as running:
        http = Http(Connection.load(str(running.kubeconfig)))
        make(http, "/api/v1/namespaces", NAMESPACE)
        make(http, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", "default")
        try:
            yield running
        finally:
            if not running.owns_parts:
                http.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


@pytest.fixture(scope="module")
def connection(plane: ControlPlane) -> Connection:
    return Connection.load(str(plane.kubeconfig))


@pytest.fixture(scope="module")
def http(connection: Connection) -> Http:
    return Http(connection)


@pytest.fixture
def dispatcher(connection: Connection) -> Iterator[Dispatcher]:
    made = Dispatcher(connection)
    made.start()
    yield made
    made.close(0)


@pytest.fixture
def writer(dispatcher: Dispatcher, http: Http) -> Writer:
    return Writer(dispatcher, http)


@pytest.fixture
def own_parts(plane: ControlPlane) -> None:
    if not plane.owns_parts:
        pytest.skip("the API server of somebody else is not to be killed")


def make(http: Http, collection: str, name: str, **fields: Any) -> bytes:
    try:
        return http.post(collection, json.dumps({"metadata": {"name": name}} | fields).encode())
    except errors.AlreadyExists:
        return http.get(f"{collection}/{name}")


def make_pod(http: Http, name: str | None = None) -> Pod:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "pause"}]}
    return decode_pod(make(http, PODS, name or next(names), spec=spec))


def read(http: Http, pod: Pod) -> Pod:
    return decode_pod(http.get(f"{PODS}/{pod.name}"))


def delete_now(http: Http, pod: Pod) -> None:
    http.request("DELETE", f"{PODS}/{pod.name}", b'{"gracePeriodSeconds":0}')


class Waited:
    """Turns a callback into a value."""

    def __init__(self) -> None:
        self.results: Queue[errors.ApiError | None] = Queue()

    def __call__(self, error: errors.ApiError | None) -> None:
        self.results.put(error)

    def result(self) -> errors.ApiError | None:
        return self.results.get(timeout=60)


class Mirror:
    """Applies what reflectors deliver, as the cache does."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[tuple[Kind[Any], str], Any] = {}
        self.seen: list[Message] = []

    def deliver(self, messages: list[Message]) -> None:
        with self.lock:
            for message in messages:
                self.seen.append(message)
                self.apply(message)

    def apply(self, message: Message) -> None:
        match message:
            case Replaced(kind, objects):
                stale = [key for key in self.objects if key[0] == kind]
                for key in stale:
                    del self.objects[key]
                self.objects |= {(kind, o.key): o for o in objects}
            case Changed(kind, found):
                self.objects[kind, found.key] = found
            case Removed(kind, found):
                del self.objects[kind, found.key]

    def get(self, kind: Kind[Any], key: str) -> Any:
        with self.lock:
            return self.objects.get((kind, key))

    def versions(self, kind: Kind[Any]) -> dict[str, str]:
        with self.lock:
            found = [o for (k, _), o in self.objects.items() if k is kind]
        return {o.key: getattr(o, "metadata", o).resource_version for o in found}


def listed(http: Http, kind: Kind[Any]) -> dict[str, str]:
    items = json.loads(http.get(kind.path()))["items"]
    keys = [(i["metadata"].get("namespace"), i["metadata"]["name"]) for i in items]
    joined = ("/".join(filter(None, key)) for key in keys)
    return {k: i["metadata"]["resourceVersion"] for k, i in zip(joined, items, strict=True)}


@pytest.fixture
def start_informers(connection: Connection) -> Iterator[Callable[..., tuple[Informers, Mirror]]]:
    started: list[Informers] = []

    def start(*kinds: Kind[Any], via: Connection = connection) -> tuple[Informers, Mirror]:
        mirror = Mirror()
        informers = Informers(via, mirror.deliver)
        started.append(informers)
        informers.watch(kinds)
        return informers, mirror

    yield start
    for informers in started:
        informers.stop()


def test_a_pod_with_a_node_never_says_that_it_has_none(
    writer: Writer, dispatcher: Dispatcher, http: Http
) -> None:
    condition = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", message="no node"
    )
    pods = [make_pod(http) for _ in range(200)]
    ends = [Waited() for _ in pods]
    for pod, done in zip(pods, ends, strict=True):
        sent = dispatcher.statistics().sent[Lane.STATUS]
        writer.patch_pod_status(pod, condition, None, lambda _: None)
        while dispatcher.statistics().sent[Lane.STATUS] == sent:
            pass
        writer.bind(pod, "node-1", done)
    assert not any(done.result() for done in ends)
    scheduled = Counter(
        (found["spec"].get("nodeName"), c["status"])
        for found in (json.loads(http.get(f"{PODS}/{pod.name}")) for pod in pods)
        for c in found["status"]["conditions"]
        if c["type"] == "PodScheduled"
    )
    assert scheduled == {("node-1", "True"): len(pods)}


def test_every_kind_is_listed_as_the_server_has_it(
    start_informers: Callable[..., tuple[Informers, Mirror]], http: Http
) -> None:
    informers, mirror = start_informers(*KINDS.values())
    wait_until(lambda: not informers.unsynced(), 60, "the first lists")
    for kind in KINDS.values():
        try:
            there = listed(http, kind)
        except errors.NotFound:
            assert kind.optional, kind.name
            continue
        assert mirror.versions(kind) == there, kind.name


def test_a_pod_is_followed_from_its_creation_to_its_end(
    start_informers: Callable[..., tuple[Informers, Mirror]], http: Http
) -> None:
    informers, mirror = start_informers(POD)
    wait_until(lambda: not informers.unsynced(), 60, "the first lists")
    pod = make_pod(http)
    wait_until(lambda: mirror.get(POD, pod.key), 60, "the new Pod")
    http.patch(f"{PODS}/{pod.name}", b'{"metadata":{"labels":{"a":"b"}}}', MERGE_PATCH)
    wait_until(lambda: mirror.get(POD, pod.key).labels == {"a": "b"}, 60, "the new label")
    http.patch(f"{PODS}/{pod.name}/status", b'{"status":{"phase":"Succeeded"}}', MERGE_PATCH)
    wait_until(lambda: mirror.get(POD, pod.key) is None, 60, "the end of the Pod")
    assert isinstance(mirror.seen[-1], Removed)
    delete_now(http, pod)


def test_a_list_in_pages_is_the_same_as_a_stream(
    connection: Connection, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE", 3)
    pods = [make_pod(http) for _ in range(8)]
    mirror = Mirror()
    paged = Reflector(connection, POD, mirror.deliver)
    paged._watch_list = False
    paged.start()
    assert paged.synced.wait(60)
    assert {p.key for p in pods} <= mirror.versions(POD).keys()
    late = make_pod(http)
    wait_until(lambda: mirror.get(POD, late.key), 60, "a Pod after the list")
    paged.stop()


@pytest.mark.usefixtures("own_parts")
def test_a_version_that_is_too_old_leads_to_a_new_list(
    connection: Connection, http: Http, plane: ControlPlane
) -> None:
    plane.parts["kube-apiserver"].kill()
    plane.parts["kube-apiserver"].start()
    make_pod(http)
    mirror = Mirror()
    stale = Reflector(connection, POD, mirror.deliver)
    stale._version = "1"
    stale.start()
    assert stale.synced.wait(60)
    assert mirror.versions(POD) == listed(http, POD)
    assert stale.statistics().lists == 1
    stale.stop()


@pytest.mark.usefixtures("own_parts")
def test_nothing_is_missed_while_the_api_server_is_away(
    start_informers: Callable[..., tuple[Informers, Mirror]],
    http: Http,
    plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.1)
    informers, mirror = start_informers(POD, NODE)
    wait_until(lambda: not informers.unsynced(), 60, "the first lists")
    gone = make_pod(http)
    wait_until(lambda: mirror.get(POD, gone.key), 60, "a Pod before")
    plane.parts["kube-apiserver"].kill()
    wait_until(informers.errors, 60, "the loss of the API server")
    assert {type(e) for e in informers.errors().values()} <= {
        errors.Unreachable,
        errors.ConnectionLost,
    }
    plane.parts["kube-apiserver"].start()
    delete_now(http, gone)
    make(http, NODE.path(), "node-after")
    wait_until(lambda: mirror.get(NODE, "node-after"), 60, "a node after")
    wait_until(lambda: mirror.get(POD, gone.key) is None, 60, "the end of a Pod")
    assert informers.errors() == {}
    wait_until(lambda: mirror.versions(POD) == listed(http, POD), 60, "the same Pods")


def test_a_pod_is_bound(writer: Writer, http: Http) -> None:
    pod, done = make_pod(http), Waited()
    writer.bind(pod, "node-1", done)
    assert done.result() is None
    assert read(http, pod).node_name == "node-1"


def test_a_binding_that_is_there_already_is_success_and_another_one_a_conflict(
    writer: Writer, http: Http
) -> None:
    pod, done = make_pod(http), Waited()
    writer.bind(pod, "node-1", done)
    assert done.result() is None
    writer.bind(pod, "node-1", done)
    assert done.result() is None
    writer.bind(pod, "node-2", done)
    assert isinstance(done.result(), errors.Conflict)
    assert read(http, pod).node_name == "node-1"


def test_a_pod_made_anew_under_the_same_name_is_not_bound_by_mistake(
    writer: Writer, http: Http
) -> None:
    old, done = make_pod(http), Waited()
    delete_now(http, old)
    new = make_pod(http, old.name)
    writer.bind(old, "node-1", done)
    assert isinstance(done.result(), errors.Conflict)
    assert read(http, new).node_name == ""


def test_a_deleted_pod_is_not_found(writer: Writer, http: Http) -> None:
    pod, done = make_pod(http), Waited()
    delete_now(http, pod)
    writer.bind(pod, "node-1", done)
    assert isinstance(done.result(), errors.NotFound)


@pytest.mark.usefixtures("own_parts")
def test_many_bindings_at_once_share_one_connection(
    writer: Writer, http: Http, plane: ControlPlane
) -> None:
    def connections() -> int:
        port = urlsplit(plane.parts["kube-apiserver"].endpoint.url).port
        return sum(c.raddr[1:] == (port,) for c in psutil.Process().net_connections())

    pods, done, before = [make_pod(http) for _ in range(100)], Waited(), connections()
    for pod in pods:
        writer.bind(pod, "node-1", done)
    assert [done.result() for _ in pods] == [None] * 100
    assert connections() == before + 1


@pytest.mark.usefixtures("own_parts")
def test_bindings_outlast_a_restart_of_the_api_server(
    writer: Writer, http: Http, plane: ControlPlane
) -> None:
    pods, done = [make_pod(http) for _ in range(50)], Waited()
    api_server = plane.parts["kube-apiserver"]
    api_server.signal(signal.SIGSTOP)
    for pod in pods:
        writer.bind(pod, "node-1", done)
    api_server.signal(signal.SIGCONT)
    api_server.kill()
    api_server.start()
    endings = [done.result() for _ in pods]
    succeeded = sum(ending is None for ending in endings)
    bound = sum(read(http, pod).node_name == "node-1" for pod in pods)
    assert bound == succeeded, "what is reported is what is so"


CONDITION = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available", 1)


def test_condition_and_nomination_are_set_changed_and_cleared(writer: Writer, http: Http) -> None:
    pod, done = make_pod(http), Waited()
    http.patch(
        f"{PODS}/{pod.name}/status",
        b'{"status":{"conditions":[{"type":"Other","status":"True"}]}}',
        MERGE_PATCH,
    )
    writer.patch_pod_status(pod, CONDITION, "node-1", done)
    assert done.result() is None
    first = read(http, pod)
    assert first.status.nominated_node_name == "node-1"
    assert {c.type for c in first.status.conditions} == {"Other", "PodScheduled"}
    assert status_patch_is_empty(writer, first)

    writer.patch_pod_status(first, None, "", done)
    assert done.result() is None
    assert read(http, pod).status.nominated_node_name == ""


def status_patch_is_empty(writer: Writer, pod: Pod) -> bool:
    before = writer._dispatcher.statistics().sent
    done = Waited()
    writer.patch_pod_status(pod, CONDITION, "node-1", done)
    return done.result() is None and writer._dispatcher.statistics().sent == before


def test_the_status_of_another_pod_of_the_name_is_left_alone(writer: Writer, http: Http) -> None:
    old, done = make_pod(http), Waited()
    delete_now(http, old)
    new = make_pod(http, old.name)
    writer.patch_pod_status(old, CONDITION, None, done)
    assert "metadata.uid" in str(done.result())
    assert read(http, new).status.conditions == ()


def test_only_the_pod_that_is_meant_is_deleted(writer: Writer, http: Http) -> None:
    old, done = make_pod(http), Waited()
    delete_now(http, old)
    new = make_pod(http, old.name)
    writer.delete_pod(old, done)
    assert done.result() is None
    assert read(http, new).deleted is None
    writer.delete_pod(new, done)
    assert done.result() is None
    with pytest.raises(errors.NotFound):
        read(http, new)


def test_events_are_stored_and_become_a_series(dispatcher: Dispatcher, http: Http) -> None:
    pod = make_pod(http)
    recorder = EventRecorder(dispatcher, "bayplan")

    def stored() -> list[dict[str, Any]]:
        query = f"fieldSelector=regarding.uid%3D{pod.uid}"
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events?{query}"
        found: list[dict[str, Any]] = json.loads(http.get(path))["items"]
        return found

    recorder.event(pod, None, "Warning", "FailedScheduling", "Scheduling", "x" * 2000)
    (event,) = wait_until(stored, 60, "the event")
    assert event["metadata"]["name"].startswith(f"{pod.name}.")
    assert (event["type"], event["reason"], event["action"]) == (
        "Warning",
        "FailedScheduling",
        "Scheduling",
    )
    assert len(event["note"]) == 1024
    recorder.event(pod, None, "Warning", "FailedScheduling", "Scheduling", "again")
    wait_until(lambda: "series" in stored()[0], 60, "the series")
    assert stored()[0]["series"]["count"] == 2


class Candidate:
    def __init__(self, connection: Connection, lock: LeaseLock, identity: str) -> None:
        self.started, self.stopped = threading.Event(), threading.Event()
        self.elector = LeaderElector(
            Http(connection),
            lock,
            identity,
            on_started=self.started.set,
            on_stopped=self.stopped.set,
        )
        self.elector.start()


def test_another_candidate_leads_as_soon_as_the_leader_stops(
    connection: Connection, http: Http
) -> None:
    lock = LeaseLock("handover", NAMESPACE, 600.0, 300.0, 0.2)
    first = Candidate(connection, lock, "first")
    assert first.started.wait(60)
    second = Candidate(connection, lock, "second")
    assert not second.started.wait(0.5)
    first.elector.stop()
    assert first.stopped.is_set()
    assert second.started.wait(60), "the lease was released, so nobody waits for its end"
    lease = json.loads(http.get(lock.path))["spec"]
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)
    second.elector.stop()


@pytest.mark.usefixtures("own_parts")
def test_a_leader_stops_in_time_when_the_api_server_hangs(
    connection: Connection, plane: ControlPlane
) -> None:
    lock = LeaseLock("hanging", NAMESPACE, 12.0, 6.0, 0.2)
    leader = Candidate(connection, lock, "leader")
    assert leader.started.wait(60)
    api_server = plane.parts["kube-apiserver"]
    api_server.signal(signal.SIGSTOP)
    try:
        assert leader.stopped.wait(lock.lease_duration)
    finally:
        api_server.signal(signal.SIGCONT)
    leader.elector.stop()


def account_token(http: Http, name: str) -> str:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    make(http, accounts, name)
    return str(json.loads(http.post(f"{accounts}/{name}/token", b"{}"))["status"]["token"])


def edited(plane: ControlPlane, path: Path, user: Any = None, **cluster: Any) -> Connection:
    """Connect by the kubeconfig with another user, or other settings of the cluster."""
    document = yaml.safe_load(plane.kubeconfig.read_text())
    settings = document["clusters"][0]["cluster"]
    for name, value in cluster.items():
        settings.pop(name, None)
        if value is not None:
            settings[name] = value
    if user:
        document["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(document))
    return Connection.load(str(path))


def test_what_is_forbidden_is_named(
    start_informers: Callable[..., tuple[Informers, Mirror]],
    http: Http,
    plane: ControlPlane,
    tmp_path: Path,
) -> None:
    token = account_token(http, "nobody")
    nobody = edited(plane, tmp_path / "config", {"token": token})
    informers, _ = start_informers(POD, via=nobody)
    wait_until(informers.errors, 60, "the refusal")
    ((kind, reason),) = informers.unsynced().items()
    assert kind is POD
    assert f"{NAMESPACE}:nobody" in reason
    assert 'cannot watch resource "pods"' in reason or 'cannot list resource "pods"' in reason


def test_a_rotated_token_file_is_read_again(
    http: Http, plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("expired")
    user = {"tokenFile": "token"}
    rotated = Http(edited(plane, tmp_path / "config", user), sleep=lambda _: None)
    with pytest.raises(errors.Unauthorized):
        rotated.get("/api/v1/nodes")
    (tmp_path / "token").write_text(account_token(http, "rotated"))
    with pytest.raises(errors.Forbidden, match="rotated"):
        rotated.get("/api/v1/nodes")


TLS = [
    pytest.param({"tls-server-name": "localhost"}, None, id="another name of the server"),
    pytest.param({"tls-server-name": "elsewhere"}, "elsewhere", id="not a name of the server"),
    pytest.param({"server": "https://127.0.0.1:1"}, "https://127.0.0.1:1", id="nobody there"),
    pytest.param(
        {"insecure-skip-tls-verify": True, "certificate-authority-data": None}, None, id="insecure"
    ),
]


@pytest.mark.usefixtures("own_parts")
@pytest.mark.parametrize(("cluster", "complaint"), TLS)
def test_the_servers_name_is_verified_as_the_kubeconfig_says(
    plane: ControlPlane, tmp_path: Path, cluster: Any, complaint: Any
) -> None:
    http = Http(edited(plane, tmp_path / "config", **cluster), max_tries=1)
    if complaint is None:
        assert b"gitVersion" in http.get("/version")
    else:
        with pytest.raises(errors.Unreachable, match=complaint):
            http.get("/version")


def test_an_unknown_authority_is_not_trusted(plane: ControlPlane, tmp_path: Path) -> None:
    stranger = b64encode(Authority(tmp_path / "pki").cert.read_bytes()).decode()
    path = tmp_path / "config"
    http = Http(edited(plane, path, **{"certificate-authority-data": stranger}), max_tries=1)
    with pytest.raises(errors.Unreachable, match="certificate"):
        http.get("/version")
