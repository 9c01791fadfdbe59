"""Asking: what the commands share that ask the running scheduler.

Without ``--server`` the aggregated API is asked where the cluster has it (`bayplan.aggregated`);
else the leader is found by its Lease, and its port is reached through the API server
(`bayplan.client.forward`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bayplan.aggregated.resources import PREFIX, path_of
from bayplan.aggregated.scheduler import is_older
from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET
from bayplan.cache.inferred_groups import OWNERS
from bayplan.client import forward
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import JSON, Connection
from bayplan.client.errors import ApiError, Unreachable
from bayplan.client.http import DEFAULT_TIMEOUT, Http
from bayplan.client.kubeconfig import Where

LEASE = "kube-system/bayplan"
API_SECONDS = 5.0
"""How long the API server may take to say whether it has the API."""
ServerOption = Annotated[
    str | None,
    typer.Option(
        help="URL of the scheduler's port, such as https://localhost:10259. Without it the API "
        "server is asked, where that has the API view.bayplan.dev; else the leader is found by its "
        "Lease, and a port is forwarded to it, as by kubectl port-forward."
    ),
]
LeaseOption = Annotated[
    str,
    typer.Option(
        help="NAMESPACE/NAME of the Lease of the scheduler, whose Pods are there, too; with "
        "another one than the default the API view.bayplan.dev is not asked."
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option("--certificate-authority", help="Who has signed the port's certificate."),
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure-skip-tls-verify",
        help="With --server: do not check the port's certificate, such as one that the scheduler "
        "made itself.",
    ),
]

_PODS = ("pod", "pods", "po")
_GROUPS = {
    "podgroup": "",
    "podgroups": "",
    "pg": "",
    "group": "",
    "job": f"{JOB.name}/",
    "jobset": f"{JOB_SET.name}/",
    "leaderworkerset": f"{LEADER_WORKER_SET.name}/",
    "lws": f"{LEADER_WORKER_SET.name}/",
}
"""By kind, what stands before the name of a group."""


class Subject(NamedTuple):
    """A Pod or a group that is asked about; a group is called as in `bayplan.explain.why`."""

    namespace: str
    name: str
    is_group: bool

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def subject(text: str, namespace: str) -> Subject:
    """What ``text`` is about: ``web``, ``pod/web``, ``podgroup/train``, ``job/train``.

    With a namespace: ``shop/web``, ``job/shop/train``, ``group/shop/Job/train``.
    """
    kind, *rest = text.split("/")
    if not rest:
        return Subject(namespace, kind, is_group=False)
    before, name = rest[:-1], rest[-1]
    if kind.lower() not in _GROUPS:
        given = before if kind.lower() in _PODS else [kind]
        return Subject("/".join(given) or namespace, name, is_group=False)
    owner = _GROUPS[kind.lower()]
    if not owner and before and before[-1] in OWNERS:
        owner = f"{before.pop()}/"
    return Subject("/".join(before) or namespace, owner + name, is_group=True)


class Scheduler(Http):
    """Asks pages of the scheduler's port, wherever ``path_of`` says that these are."""

    def __init__(
        self, connection: Connection, path_of: Callable[[str], str] = lambda page: page
    ) -> None:
        super().__init__(connection)
        self._path_of = path_of

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """See `bayplan.client.http.Http`; ``path`` is a page of the port."""
        try:
            return super().request(method, self._path_of(path), body, content_type, timeout)
        except ApiError as error:
            if is_older(error, path):
                page = path.partition("?")[0]
                text = f"the scheduler is older than this command: it has no page {page}"
                raise Unreachable(text) from None
            raise


def connect(
    server: str | None,
    lease: str,
    authority: Path | None,
    kubeconfig: Where,
    *,
    insecure: bool,
) -> Scheduler:
    """The scheduler, with the credentials of the user's kubeconfig.

    A forwarded port is checked by the certificate ``authority`` only where that is given: the API
    server has led the way to a Pod of this name.

    Raises:
        KubeconfigError: there is none, or it cannot be used.
        ApiError: no leader is found, or the user may not forward a port.
    """
    if server is not None and server.startswith("http:"):
        return Scheduler(Connection.to(server))  # anybody could read the credentials
    configuration, token_file = credentials.load(kubeconfig)
    open_socket = None
    if server is None:
        to_api_server = Http(Connection(*credentials.load(kubeconfig)))
        if lease == LEASE and _has_api(to_api_server):
            return Scheduler(to_api_server.connection, path_of)
        leader = forward.Leader(to_api_server, lease)
        open_socket, server = leader.open_socket, leader.server
    configuration.host, configuration.tls_server_name = server, None
    configuration.verify_ssl = authority is not None if open_socket else not insecure
    configuration.ssl_ca_cert = None if authority is None else str(authority)
    configuration.proxy = None if open_socket else configuration.proxy
    peer = "the leader behind a forwarded port" if open_socket else "the scheduler"
    return Scheduler(Connection(configuration, token_file, open_socket=open_socket, peer=peer))


def _has_api(http: Http) -> bool:
    try:
        http.once("GET", PREFIX, timeout=API_SECONDS)
    except ApiError:
        return False
    return True


def standby(answer: Mapping[str, Any]) -> Iterator[str]:
    """A line where the answer is not the leader's."""
    if answer.get("leads") is False:
        leads = f"; {answer['leader'] or 'nobody'} leads" if "leader" in answer else ""
        yield f"said by a standby, which does not decide{leads}"
