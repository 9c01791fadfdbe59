"""``bayplan run``: schedule Pods of a cluster until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayplan.support import logs
from bayplan.app.sources import Sources
from bayplan.cli import plugins, port_flags
from bayplan.config import ConfigError
from bayplan.server.options import SECURE_PORT, PortError, PortOptions

if TYPE_CHECKING:
    from bayplan.app.tracing_config import Traces

app = typer.Typer(add_completion=False)


def _level(text: str | int) -> int:
    """A log level; ``-v=2`` is as right as ``-v 2``, since kube-scheduler's users write it so."""
    try:
        return logs.parse_verbosity(str(text).removeprefix("="))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def run(
    config: plugins.ConfigOption = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(help="How to reach the API server; default: clientConnection, in-cluster."),
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    secure_port: port_flags.SecurePort = SECURE_PORT,
    bind_address: port_flags.BindAddress = "0.0.0.0",  # noqa: S104 - as kube-scheduler
    insecure_port: port_flags.InsecurePort = 0,
    tls_cert_file: port_flags.CertFile = None,
    tls_private_key_file: port_flags.KeyFile = None,
    cert_dir: port_flags.CertDir = None,
    tls_min_version: port_flags.MinVersion = "VersionTLS12",
    tls_cipher_suites: port_flags.CipherSuites = "",
    client_ca_file: port_flags.ClientCA = None,
    authentication_kubeconfig: port_flags.AuthenticationKubeconfig = None,
    authorization_kubeconfig: port_flags.AuthorizationKubeconfig = None,
    authorization_always_allow_paths: port_flags.AlwaysAllowPaths = port_flags.PROBES_ALLOWED,
    verbosity: Annotated[
        int, typer.Option("-v", "--v", parser=_level, metavar="LEVEL", help="Log level, 0 to 10.")
    ] = 0,
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
    tracing_config_file: Annotated[
        Path | None, typer.Option(help="TracingConfiguration: send spans of attempts there.")
    ] = None,
    watchdog_limit: Annotated[
        float,
        typer.Option(min=0, help="Seconds until a plugin that does not return counts as stuck."),
    ] = 60.0,
    questions_share: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Of the scheduling thread's time, for answers to who asks."
        ),
    ] = 0.05,
) -> None:
    """Run the scheduler."""
    if log_format not in ("json", "console"):
        raise typer.BadParameter("must be json or console", param_hint="--log-format")
    port = PortOptions(
        secure_port=secure_port,
        bind_address=bind_address,
        insecure_port=insecure_port,
        cert_file=tls_cert_file,
        key_file=tls_private_key_file,
        cert_dir=cert_dir,
        min_version=tls_min_version,
        cipher_suites=port_flags.items(tls_cipher_suites),
        client_ca_file=client_ca_file,
        authentication_kubeconfig=authentication_kubeconfig,
        authorization_kubeconfig=authorization_kubeconfig,
        always_allow_paths=port_flags.items(authorization_always_allow_paths),
    )
    logs.configure(verbosity, json=log_format == "json")
    sources = Sources(config, tuple(plugin_dir or ()), feature_gates=tuple(feature_gates or ()))
    registry, effective = plugins.load(sources)
    # Imported here: the other commands need no client, and the scheduler can be loaded while the
    # API server is busy with the first lists.
    from bayplan.app.feed import Feed  # noqa: PLC0415
    from bayplan.client.kubeconfig import KubeconfigError  # noqa: PLC0415

    traces = _traces(tracing_config_file)
    try:
        credentials = kubeconfig or effective.settings.client_connection.kubeconfig or None
        feed = Feed(credentials, traces.instrument if traces else None)
    except KubeconfigError as exc:
        plugins.unusable(exc)
    feed.start()
    from bayplan.app.process import Process  # noqa: PLC0415

    try:
        process = Process(effective, registry, feed, sources, port, watchdog_limit, questions_share)
    except (ConfigError, PortError) as exc:
        feed.informers.stop()
        if isinstance(exc, ConfigError):
            exc = ConfigError(exc.errors, str(config or ""))
        plugins.unusable(exc)
    try:
        process.run()
    finally:
        if traces is not None:
            traces.close()


def _traces(file: Path | None) -> Traces | None:
    if file is None:
        return None
    from bayplan.app import tracing_config  # noqa: PLC0415 - for those who trace

    try:
        return tracing_config.Traces(tracing_config.load(file))
    except tracing_config.TracingError as error:
        plugins.unusable(error)
