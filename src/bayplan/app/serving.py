"""Serving: the ports of one process, as its options say, and the certificates kept up to date."""

from __future__ import annotations

import ipaddress
import threading

from bayplan.client.connection import Connection
from bayplan.client.http import Http
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.server import certificates
from bayplan.server.access import Access
from bayplan.server.client_ca import ConfigMapCA, FileCA
from bayplan.server.options import PortError, PortOptions
from bayplan.server.pages import Pages
from bayplan.server.port import Port
from bayplan.server.reviews import AccessReviews, TokenReviews
from bayplan.server.tls import ServingContext
from bayplan.telemetry.instrument import Instrument

LOOK_SECONDS = 5.0
"""How often the certificates on disk are looked at."""
LOOPBACK = "127.0.0.1"


class Serving:
    """HTTPS with authorization, and plain HTTP on the loopback if configured.

    Args:
        http: to the API server, which reviews tokens and access.
        instrument: receives requests to an API server other than ``http``'s.
        probes: also served by plain HTTP.
        pages: all others.

    Raises:
        PortError: a port, a certificate or an option cannot be used.
    """

    def __init__(
        self,
        options: PortOptions,
        http: Http,
        instrument: Instrument,
        probes: Pages,
        pages: Pages,
    ) -> None:
        self._ports: dict[str, Port] = {}
        self._ending = threading.Event()
        self._refresher: threading.Thread | None = None
        if options.secure_port:
            self._secure(options, http, instrument, {**probes, **pages})
        if options.insecure_port:
            try:
                self._ports["insecure_port"] = Port(LOOPBACK, options.insecure_port, probes)
            except PortError:
                self.close()
                raise

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by option."""
        return {name: port.port for name, port in self._ports.items()}

    def start(self) -> None:
        """Begin to answer."""
        for port in self._ports.values():
            port.start()
        if self._refresher is not None:
            self._refresher.start()

    def stop(self) -> None:
        """Stop answering. After `start`."""
        self._ending.set()
        for port in self._ports.values():
            port.stop()

    def close(self) -> None:
        """Give up the ports of a process that was never started."""
        for port in self._ports.values():
            port.close()

    def _secure(
        self, options: PortOptions, http: Http, instrument: Instrument, pages: Pages
    ) -> None:
        file = options.client_ca_file
        authority = FileCA(file) if file is not None else ConfigMapCA(http)
        _check_address(options.bind_address)
        pair = certificates.source(options)
        context = ServingContext(pair, authority, options.min_version, options.cipher_suites)
        if options.cert_file is not None or options.cert_dir is not None:
            context.load()  # a self-signed one is made for the first connection
        access = Access(
            TokenReviews(_http(options.authentication_kubeconfig, http, instrument)),
            AccessReviews(_http(options.authorization_kubeconfig, http, instrument)),
            options.always_allow_paths,
        )
        port = Port(options.bind_address, options.secure_port, pages, context, access)
        self._ports["secure_port"] = port

        def refresh() -> None:
            authority.refresh()
            while not self._ending.wait(LOOK_SECONDS):
                context.refresh()
                authority.refresh()

        self._refresher = threading.Thread(target=refresh, name="certificates", daemon=True)


def _http(kubeconfig: str | None, http: Http, instrument: Instrument) -> Http:
    if kubeconfig is None:
        return http
    try:
        return Http(Connection.load(kubeconfig, instrument))
    except KubeconfigError as error:
        raise PortError(str(error)) from None


def _check_address(address: str) -> None:
    try:
        if address:
            ipaddress.ip_address(address)
    except ValueError as error:
        raise PortError(f"--bind-address: {error}") from None
