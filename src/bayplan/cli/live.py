"""The objects of a running cluster, for read-only commands.

Lists are read in pages, with the credentials of the user. A kind that the API server does not have
counts as empty, and so does an optional one that may not be read, which is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer

from bayplan.api.kinds import Kind
from bayplan.api.lists import ObjectList
from bayplan.cli import plugins
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, Forbidden, NotFound
from bayplan.client.http import Http
from bayplan.client.kubeconfig import KubeconfigError, Where

PAGE = 500
"""Objects in one answer."""

KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="Which cluster, if no file is given; as kubectl finds it."),
]

ContextOption = Annotated[
    str | None, typer.Option("--context", help="Of the kubeconfig, in place of the current one.")
]

OurNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="The namespace; without it that of the kubeconfig's context."
    ),
]

_decode_page = msgspec.json.Decoder(ObjectList[msgspec.Raw]).decode


def objects(
    kubeconfig: Where, kinds: Iterable[Kind[Any]]
) -> Iterator[tuple[Kind[Any], msgspec.Raw]]:
    """All objects of these kinds, each as the API server has it.

    Raises:
        typer.Exit: the cluster cannot be read; the error is printed.
    """
    try:
        http = Http(Connection.load(kubeconfig))
        for kind in kinds:
            for data in of_kind(http, kind):
                yield kind, data
    except (ApiError, KubeconfigError) as error:
        plugins.unusable(error)


class Moment:
    """The objects of a running cluster as of one moment: each kind is listed once.

    Args:
        kubeconfig: which cluster.
    """

    at = None
    """Now; see `bayplan.cli.offline.Listing`."""

    def __init__(self, kubeconfig: Where) -> None:
        self._kubeconfig = kubeconfig
        self._lists: dict[Kind[Any], list[msgspec.Raw]] = {}

    def objects(self, kinds: Iterable[Kind[Any]]) -> Iterator[tuple[Kind[Any], msgspec.Raw]]:
        """As `objects`; the same ones each time."""
        wanted = list(kinds)
        new = [kind for kind in wanted if kind not in self._lists]
        self._lists |= {kind: [] for kind in new}
        for kind, data in objects(self._kubeconfig, new):
            self._lists[kind].append(data)
        return ((kind, data) for kind in wanted for data in self._lists[kind])


def of_kind(http: Http, kind: Kind[Any]) -> Iterator[msgspec.Raw]:
    """The objects of a kind; there are none where an optional kind cannot be had.

    Raises:
        ApiError: the API server does not give them.
    """
    query: dict[str, str | int] = {"limit": PAGE}
    if kind.field_selector:
        query["fieldSelector"] = kind.field_selector
    while True:
        try:
            page = _decode_page(http.get(f"{kind.path()}?{urlencode(query)}"))
        except (NotFound, Forbidden) as error:
            if not kind.optional:
                raise
            if isinstance(error, Forbidden):
                typer.echo(f"there may be objects of kind {kind.name}: {error}", err=True)
            return
        yield from page.items or ()
        if not page.metadata.continue_:
            return
        query["continue"] = page.metadata.continue_
