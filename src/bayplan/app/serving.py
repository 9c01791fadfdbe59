"""Serving: the ports of one process, as its options say."""

from __future__ import annotations

from bayplan.client.connection import Connection
from bayplan.client.http import Http
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.server.access import Access, Credentials
from bayplan.server.client_ca import ConfigMapCA, FileCA
from bayplan.server.options import PortError, PortOptions
from bayplan.server.pages import Pages
from bayplan.server.port import Port
from bayplan.server.reviews import AccessReviews, TokenReviews
from bayplan.server.secure_port import SecurePort
from bayplan.telemetry.instrument import Instrument

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
        self._ports: dict[str, Port | SecurePort] = {}
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

    def stop(self) -> None:
        """Stop answering. After `start`."""
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
        tokens = TokenReviews(_http(options.authentication_kubeconfig, http, instrument))
        access = Access(
            Credentials(tokens).user,
            AccessReviews(_http(options.authorization_kubeconfig, http, instrument)),
            options.always_allow_paths,
        )
        self._ports["secure_port"] = SecurePort(options, pages, authority, access)


def _http(kubeconfig: str | None, http: Http, instrument: Instrument) -> Http:
    if kubeconfig is None:
        return http
    try:
        return Http(Connection.load(kubeconfig, instrument))
    except KubeconfigError as error:
        raise PortError(str(error)) from None
