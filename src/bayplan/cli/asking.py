"""Asking: what the commands share that ask the port of the running scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.http import Http

SERVER = "https://localhost:10259"
ServerOption = Annotated[
    str,
    typer.Option(
        help="URL of the scheduler's port, such as https://localhost:10259 after kubectl -n "
        "kube-system port-forward deployment/bayplan 10259."
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
        help="Do not check the port's certificate, such as one that the scheduler made itself.",
    ),
]


def connect(server: str, authority: Path | None, kubeconfig: str | None, *, insecure: bool) -> Http:
    """The scheduler's port, with the credentials of the user's kubeconfig.

    Raises:
        KubeconfigError: there is none, or it cannot be used.
    """
    configuration, token_file = credentials.load(kubeconfig)
    configuration.host, configuration.tls_server_name = server, None
    configuration.verify_ssl = not insecure
    configuration.ssl_ca_cert = None if authority is None else str(authority)
    return Http(Connection(configuration, token_file))
