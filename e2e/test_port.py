"""The port: who may read it, by the API server's own judgement, and its certificate."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.pki import Authority
from e2e.provider.process import unverified

pytestmark = pytest.mark.e2e

READER, OPERATOR, NOBODY = "metrics-reader", "operator", "default"
USER = "e2e-reader"
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: e2e-{name}}}
rules: [{{nonResourceURLs: [{paths}], verbs: [{verbs}]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: e2e-{name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-{name}}}
subjects:
  - {{kind: ServiceAccount, name: {name}, namespace: {namespace}}}
  - {{kind: User, name: {user}, apiGroup: rbac.authorization.k8s.io}}
---
"""
PROBES = ("/healthz", "/livez", "/readyz")


class Got(NamedTuple):
    """An answer."""

    status: int
    body: str


def ask(
    bayplan: Bayplan,
    path: str,
    token: str = "",
    context: ssl.SSLContext | None = None,
    body: bytes | None = None,
) -> Got:
    """Ask as the owner of a token, or of the context's certificate, or as nobody in particular.

    With a body it is a PUT.
    """
    url, method = bayplan.endpoint.url + path, "GET" if body is None else "PUT"
    request = urllib.request.Request(url, body, method=method)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60, context=context or unverified()) as answer:
            return Got(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Got(error.code, error.read().decode())


@pytest.fixture(scope="module")
def tokens(shared: Cluster) -> Iterator[dict[str, str]]:
    """Of ServiceAccounts that may read the metrics, that may do more, and that may nothing."""
    rules = shared.plane.folder / "readers.yaml"
    where = {"namespace": shared.namespace, "user": USER}
    reader = ROLE.format(name=READER, paths="/metrics", verbs="get", **where)
    paths = '/configz, "/debug/*"'
    rules.write_text(reader + ROLE.format(name=OPERATOR, paths=paths, verbs="get, put", **where))
    for name in (READER, OPERATOR):
        shared.kubectl("create", "serviceaccount", name, namespace=shared.namespace)
    shared.kubectl("apply", "-f", str(rules))
    yield {name: shared.token(name, shared.namespace) for name in (READER, OPERATOR, NOBODY)}
    shared.kubectl("delete", "-f", str(rules))
    shared.kubectl("delete", "serviceaccount", READER, OPERATOR, namespace=shared.namespace)


@pytest.fixture(scope="module")
def bayplan(shared: Cluster) -> Iterator[Bayplan]:
    """A scheduler with the port that deploy/ gives it: no flag about it."""
    made = shared.bayplan(shared.config(OTHER), serving=())
    made.start()
    yield made
    made.stop(grace=60)


def test_probes_are_open_to_everybody(bayplan: Bayplan) -> None:
    assert [ask(bayplan, path).status for path in PROBES] == [200, 200, 200]
    assert ask(bayplan, "/livez", "no such token").status == 200


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [
        pytest.param("/metrics", READER, 200, id="allowed"),
        pytest.param("/configz", READER, 403, id="another path"),
        pytest.param("/metrics", NOBODY, 403, id="denied"),
        pytest.param("/configz", OPERATOR, 200, id="configuration"),
        pytest.param("/debug/flags/v", OPERATOR, 200, id="log level"),
    ],
)
def test_a_token_reads_what_its_account_may(
    bayplan: Bayplan, tokens: dict[str, str], path: str, name: str, status: int
) -> None:
    # Roles that are new take the API server a moment.
    wait_until(
        lambda: ask(bayplan, path, tokens[name]).status == status, SOON, f"{status} for {path}"
    )


def test_who_says_nothing_is_refused_as_anonymous(bayplan: Bayplan) -> None:
    status, body = ask(bayplan, "/metrics")
    assert status == 403
    assert body.startswith('forbidden: User "system:anonymous" cannot get path "/metrics"')


def test_a_token_that_is_not_good_is_refused(bayplan: Bayplan) -> None:
    assert ask(bayplan, "/metrics", "no such token") == Got(401, "Unauthorized\n")


def test_a_certificate_of_the_api_servers_authority_is_known(
    shared: Cluster, bayplan: Bayplan, tokens: dict[str, str]
) -> None:
    if not shared.plane.owns_parts:
        pytest.skip("takes the authority of the API server")
    assert tokens
    pair = shared.plane.authority.issue("reader", USER)
    context = unverified()
    context.load_cert_chain(pair.cert, pair.key)

    def allowed() -> bool:
        return ask(bayplan, "/metrics", context=context).status == 200

    wait_until(allowed, SOON, "the authority was read from the ConfigMap")


def test_an_operator_looks_into_the_process(
    cluster: Cluster, bayplan: Bayplan, tokens: dict[str, str]
) -> None:
    token = tokens[OPERATOR]
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod("p", OTHER))
    cluster.wait_bound("p")
    config = json.loads(ask(bayplan, "/configz", token).body)["componentconfig"]
    assert config["profiles"][0]["schedulerName"] == OTHER
    assert ask(bayplan, "/debug/flags/v", token, body=b"3").body == "the log level is 3\n"
    assert ask(bayplan, "/debug/flags/v", token).body == "3\n"
    assert "MainThread" in ask(bayplan, "/debug/profile?seconds=0.2", token).body
    lines = [json.loads(line) for line in ask(bayplan, "/debug/dump", token).body.splitlines()]
    [node] = [line for line in lines if line["msg"] == "Node in cache" and line["node"] == "n1"]
    assert node["pods"] == [f"{cluster.namespace}/p"]
    assert lines[-1]["msg"] == "Comparison with the API server"


def test_a_rotated_certificate_is_shown_without_a_restart(
    cluster: Cluster, start: Callable[..., Bayplan], tmp_path: Path
) -> None:
    folder, later = tmp_path / "mounted", Authority(tmp_path / "later")
    first = Authority(folder).issue("tls", "bayplan")
    flags = (f"--tls-cert-file={first.cert}", f"--tls-private-key-file={first.key}")
    bayplan = start(cluster.config(OTHER), serving=flags)
    pid = bayplan.pid
    new = later.issue("tls", "bayplan")
    first.key.write_bytes(new.key.read_bytes())
    first.cert.write_bytes(new.cert.read_bytes())
    trusting = ssl.create_default_context(cafile=str(later.cert))

    def shown() -> bool:
        try:
            return ask(bayplan, "/livez", context=trusting).status == 200
        except urllib.error.URLError:
            return False

    wait_until(shown, SOON, "the new certificate")
    assert bayplan.pid == pid
    assert bayplan.running


def test_clients_that_say_nothing_do_not_keep_probes_out(bayplan: Bayplan) -> None:
    port = urlsplit(bayplan.endpoint.url).port
    assert port
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        assert ask(bayplan, "/livez").status == 200


def test_probes_need_no_api_server(own: Cluster) -> None:
    bayplan = own.bayplan(own.config(OTHER), serving=()).start()
    own.plane.parts["kube-apiserver"].kill()
    assert ask(bayplan, "/livez").status == 200
    assert ask(bayplan, "/metrics", "any token").status == 503
    bayplan.kill()
