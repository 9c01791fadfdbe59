"""The page of a real cluster: it follows, the scheduler says why, and rights hold."""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, token_kubeconfig, wait_until

pytestmark = pytest.mark.e2e

READER = "view-reader"


@pytest.fixture(scope="module")
def bayplan(shared: Cluster) -> Iterator[Bayplan]:
    made = shared.bayplan(shared.config(OTHER), serving=())
    made.start()
    yield made
    made.stop(grace=60)


@pytest.fixture(scope="module")
def reader(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of one who may read Pods of the tests' namespace and nothing else."""
    where = {"namespace": shared.namespace}
    shared.kubectl("create", "serviceaccount", READER, **where)
    token = shared.token(READER, shared.namespace)
    folder = tmp_path_factory.mktemp("reader")
    verbs = ("--verb=get,list", "--resource=pods")
    shared.kubectl("create", "role", READER, *verbs, **where)
    account = f"--serviceaccount={shared.namespace}:{READER}"
    shared.kubectl("create", "rolebinding", READER, f"--role={READER}", account, **where)
    yield token_kubeconfig(folder / READER, shared.plane.kubeconfig, token)
    shared.kubectl("delete", "serviceaccount", READER, **where)
    shared.kubectl("delete", "role,rolebinding", READER, **where)


class Viewer:
    """A browser that has opened the printed address.

    Attributes:
        raw: all bytes that it was sent.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.netloc
        self._cookie = ""
        self.raw = b""
        _, headers, _ = self._request("POST", "/session", parts.fragment)
        self._cookie = headers["set-cookie"].partition(";")[0]

    def _request(
        self, method: str, path: str, body: str = ""
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection(self._address, timeout=SOON)
        connection.request(method, path, body, {"Cookie": self._cookie})
        answer = connection.getresponse()
        data = answer.read()
        if answer.headers["content-encoding"] == "gzip":
            data = gzip.decompress(data)
        self.raw += data + str(answer.headers).encode()
        return answer.status, answer.headers, data

    def get(self, path: str) -> Any:
        """The answer as JSON."""
        status, _, data = self._request("GET", path)
        assert status == 200, data
        return json.loads(data)

    def refused(self, path: str) -> tuple[int, str]:
        """Status and text of an answer."""
        status, _, data = self._request("GET", path)
        return status, data.decode()

    def waiting(self) -> dict[str, str]:
        """What is said of each Pod that waits."""
        bays = self.get("/bays")
        pending = bays["pending"]
        return {
            name: bays["texts"][message]
            for name, message in zip(
                pending.get("name", ()), pending.get("message", ()), strict=True
            )
        }

    def pods_on(self, node: str) -> int:
        """How many Pods the picture has on a node."""
        bays = self.get("/bays")
        row = bays["nodes"]["name"].index(node)
        return sum(on == row for on in bays["pods"].get("node", ()))


@contextmanager
def viewing(kubeconfig: Path, *flags: str) -> Iterator[Viewer]:
    command = [sys.executable, "-m", "bayplan", "view", f"--kubeconfig={kubeconfig}", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Viewer(process.stdout.readline().strip())
        finally:
            process.terminate()


def test_the_picture_follows_the_cluster_and_the_scheduler_says_why(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(NodeSpec("view-n1", cpu="2"))
    cluster.create(pod("view-big", OTHER, cpu="3"))
    message = cluster.wait_condition("view-big")
    big = f"{cluster.namespace}/view-big"
    server = (f"--server={bayplan.endpoint.url}", "--insecure-skip-tls-verify")
    with viewing(cluster.plane.kubeconfig, *server) as viewer:
        assert viewer.waiting()[big] == message
        query = f"namespace={cluster.namespace}&pod=view-big"
        answer = viewer.get(f"/why?{query}")
        assert answer["last"]["message"] == message
        assert answer["queue"]["attempts"] >= 1
        cluster.create(pod("view-small", OTHER, cpu="1"))
        cluster.wait_bound("view-small")
        wait_until(lambda: viewer.pods_on("view-n1") == 1, SOON, "the Pod in the picture")
        names = [one["pod"] for one in viewer.get("/node?name=view-n1")["pods"]]
        assert names == [f"{cluster.namespace}/view-small"]
        cluster.delete("view-big")
        wait_until(lambda: big not in viewer.waiting(), SOON, "the Pod to be gone")
        assert viewer.refused(f"/why?namespace={cluster.namespace}&pod=never")[0] == 404


def test_without_a_scheduler_every_pod_is_judged_whichever_it_asks_for(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("view-n1", cpu="2"))
    cluster.create(pod("view-big", "nobody", cpu="3"))
    with viewing(cluster.plane.kubeconfig) as viewer:
        answer = viewer.get(f"/why?namespace={cluster.namespace}&pod=view-big")
        assert answer["state"] == "Pending"
        assert "view-n1 has 2 cpu free of the 3 that it needs" in answer["sentence"]
        verdict = viewer.get(f"/why-not?pod={cluster.namespace}/view-big")
        row = viewer.get("/bays")["nodes"]["name"].index("view-n1")
        rejected = verdict["rejected"][verdict["node"][row]]
        assert rejected["plugin"] == "NodeResourcesFit"


def test_a_namespace_user_sees_shares_and_no_name_of_others(
    cluster: Cluster, bayplan: Bayplan, reader: Path
) -> None:
    cluster.nodes(NodeSpec("view-n1", cpu="4"))
    secret = pod("view-secret", OTHER, cpu="2")
    cluster.kubectl("create", "namespace", "view-foreign")
    try:
        cluster.put(secret, namespace="view-foreign")
        cluster.create(pod("view-big", OTHER, cpu="3"))
        cluster.wait_condition("view-big")
        refused = subprocess.run(
            [sys.executable, "-m", "bayplan", "view", f"--kubeconfig={reader}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=SOON,
        )
        assert refused.returncode == 2
        assert "forbidden" in refused.stderr
        flags = [f"--server={bayplan.endpoint.url}", "--insecure-skip-tls-verify"]
        with viewing(reader, *flags, f"--namespace={cluster.namespace}") as viewer:
            bays = viewer.get("/bays")
            assert bays["named"] is False
            assert b"view-foreign" not in viewer.raw
            assert bays["pending"]["name"] == [f"{cluster.namespace}/view-big"]
            assert max(bays["nodes"]["requested/cpu"]) >= 2000
            query = f"namespace={cluster.namespace}&pod=view-big"
            assert "cpu" in viewer.get(f"/why?{query}")["sentence"]
            status, text = viewer.refused("/why?namespace=view-foreign&pod=view-none")
            assert (status, "may not get pods" in text) == (403, True)
            assert viewer.refused("/node?name=view-n1")[0] == 403
            for name in (b"view-n1", b"view-secret"):
                assert name not in viewer.raw
    finally:
        cluster.kubectl("delete", "namespace", "view-foreign", "--wait=false")
