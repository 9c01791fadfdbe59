"""``bayplan api``: the scheduler's answers as the aggregated API ``view.bayplan.dev``."""

from __future__ import annotations

from typing import Annotated

import typer

from bayplan.support import logs
from bayplan.aggregated.scheduler import Scheduler
from bayplan.aggregated.server import ApiProcess
from bayplan.cli import asking, plugins, port_flags
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.server.options import PortError, PortOptions

SECURE_PORT = 10261

app = typer.Typer(add_completion=False)


@app.command()
def api(
    kubeconfig: Annotated[
        str | None, typer.Option(help="How to reach the API server; default: in-cluster.")
    ] = None,
    lease: asking.LeaseOption = asking.LEASE,
    server: Annotated[
        str | None,
        typer.Option(help="URL of the scheduler's port, where that is not a Pod of the cluster."),
    ] = None,
    authority: asking.AuthorityOption = None,
    secure_port: Annotated[int, typer.Option(help="HTTPS.", min=1, max=65535)] = SECURE_PORT,
    bind_address: port_flags.BindAddress = "0.0.0.0",  # noqa: S104 - as the scheduler
    tls_cert_file: port_flags.CertFile = None,
    tls_private_key_file: port_flags.KeyFile = None,
    cert_dir: port_flags.CertDir = None,
    tls_min_version: port_flags.MinVersion = "VersionTLS12",
    tls_cipher_suites: port_flags.CipherSuites = "",
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
) -> None:
    """Serve why, plan, status and columns as resources of the API server, until a signal ends it.

    Without --certificate-authority the port of the scheduler is not checked.
    """
    logs.configure(json=log_format == "json")
    options = PortOptions(
        secure_port=secure_port,
        bind_address=bind_address,
        cert_file=tls_cert_file,
        key_file=tls_private_key_file,
        cert_dir=cert_dir,
        min_version=tls_min_version,
        cipher_suites=port_flags.items(tls_cipher_suites),
    )
    try:
        http = Http(Connection.load(kubeconfig))
        scheduler = Scheduler(http, lease, kubeconfig, server, authority)
        ApiProcess(options, http, scheduler).run()
    except (ApiError, KubeconfigError, PortError) as error:
        plugins.unusable(error)
