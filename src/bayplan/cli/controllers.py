"""``bayplan controllers``: statuses that people read, and nodes for groups."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Annotated

import typer

from bayplan.support import logs
from bayplan.cli.plugins import unusable
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.client.leader import LeaseLock
from bayplan.controllers.provisioning import ProvisioningClass

app = typer.Typer(add_completion=False)

NO_KOPF = 'kopf is not installed: pip install "bayplan[controllers]"'


@app.command()
def controllers(
    kubeconfig: Annotated[
        str | None, typer.Option(help="How to reach the API server; default: in-cluster.")
    ] = None,
    scheduler_name: Annotated[
        list[str], typer.Option(help="Whose Pods wait in Queues; may be repeated.")
    ] = ["bayplan"],  # noqa: B006 - typer copies it
    lease_name: Annotated[
        str, typer.Option(help='Which process writes: that with this Lease. "" for no election.')
    ] = "bayplan-controllers",
    lease_namespace: Annotated[str, typer.Option(help="Where the Lease is.")] = "kube-system",
    port: Annotated[int, typer.Option(help="Where /healthz answers; 0 for nowhere.")] = 10260,
    provisioning_class: Annotated[
        str,
        typer.Option(
            help="Ask an autoscaler for nodes for groups that have no room, by ProvisioningRequests"
            ' of this class. "" for none.'
        ),
    ] = "",
    provisioning_parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Of these requests; may be repeated."),
    ] = None,
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
) -> None:
    """Write the status of PodGroups, ElasticQuotas and Queues until a signal ends it."""
    asks = _asks(provisioning_class, provisioning_parameter or ())
    logs.configure(json=log_format == "json")
    try:
        from bayplan.controllers.operator import Operator  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "kopf":
            raise
        unusable(NO_KOPF)
    lock = LeaseLock(lease_name, lease_namespace) if lease_name else None
    try:
        operator = Operator(kubeconfig, scheduler_name, lock, port, asks)
    except KubeconfigError as error:
        unusable(f"bayplan: {error}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.stop())
    if not operator.run():
        typer.echo("bayplan: the Lease was lost", err=True)
        raise typer.Exit(1)


def _asks(name: str, parameters: Iterable[str]) -> ProvisioningClass | None:
    pairs = [parameter.partition("=") for parameter in parameters]
    for key, equals, _ in pairs:
        if not (key and equals):
            unusable(f"bayplan: --provisioning-parameter is {key!r}; it has to be KEY=VALUE")
    if pairs and not name:
        unusable("bayplan: --provisioning-parameter is of no use without --provisioning-class")
    return ProvisioningClass(name, {key: value for key, _, value in pairs}) if name else None
