"""The flags of ``bayplan run`` for its port, named as kube-scheduler's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayplan.server.options import PROBES

PROBES_ALLOWED = ",".join(PROBES)


def _port(number: int) -> int:
    if not 0 <= number <= 65535:
        raise typer.BadParameter(f"{number} is no port, 0 to 65535")
    return number


SecurePort = Annotated[
    int, typer.Option(callback=_port, help="HTTPS: probes, metrics, debug pages; 0 for none.")
]
BindAddress = Annotated[str, typer.Option(help="Address of the secure port; empty for all.")]
InsecurePort = Annotated[
    int, typer.Option(callback=_port, help="Plain HTTP on 127.0.0.1: probes, metrics; 0 for none.")
]
CertFile = Annotated[Path | None, typer.Option(help="Certificate and its chain, PEM.")]
KeyFile = Annotated[Path | None, typer.Option(help="Private key of --tls-cert-file, PEM.")]
CertDir = Annotated[
    Path | None, typer.Option(help="Has bayplan.crt and bayplan.key, or they are made there.")
]
MinVersion = Annotated[str, typer.Option(help="VersionTLS12 or VersionTLS13.")]
CipherSuites = Annotated[str, typer.Option(metavar="A,B", help="Of TLS 1.2, as Go names them.")]
ClientCA = Annotated[
    Path | None,
    typer.Option(help="Who signs certificates of clients; default: the API server's authority."),
]
AuthenticationKubeconfig = Annotated[
    str | None, typer.Option(help="Where tokens are reviewed, if not at --kubeconfig's server.")
]
AuthorizationKubeconfig = Annotated[
    str | None, typer.Option(help="Where access is reviewed, if not at --kubeconfig's server.")
]
AlwaysAllowPaths = Annotated[
    str, typer.Option(metavar="PATHS", help="Paths that are open to everybody, with commas.")
]


def items(text: str) -> tuple[str, ...]:
    """What stands between the commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
