"""SecurePort: HTTPS as options say, with certificates that are kept up to date."""

from __future__ import annotations

import ipaddress
import threading

from bayplan.server import certificates
from bayplan.server.access import Access
from bayplan.server.client_ca import ConfigMapCA, FileCA
from bayplan.server.options import PortError, PortOptions
from bayplan.server.pages import PageSource
from bayplan.server.port import MOST_BYTES, Port
from bayplan.server.tls import ServingContext

LOOK_SECONDS = 5.0
"""How often the certificates on disk are looked at."""


class SecurePort:
    """See the module's docstring.

    Args:
        authority: who signs certificates of clients.
        most_bytes: of a request.

    Raises:
        PortError: the port, a certificate or an option cannot be used.
    """

    def __init__(
        self,
        options: PortOptions,
        pages: PageSource,
        authority: FileCA | ConfigMapCA,
        access: Access,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        _check_address(options.bind_address)
        self._authority = authority
        pair = certificates.source(options)
        self._context = ServingContext(pair, authority, options.min_version, options.cipher_suites)
        if options.cert_file is not None or options.cert_dir is not None:
            self._context.load()  # a self-signed one is made for the first connection
        address, number = options.bind_address, options.secure_port
        self._port = Port(address, number, pages, self._context, access, most_bytes)
        self.port = self._port.port
        self._ending = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, name="certificates", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._port.start()
        self._refresher.start()

    def stop(self) -> None:
        """Stop answering; requests that are being answered are not waited for."""
        self._ending.set()
        self._port.stop()

    def close(self) -> None:
        """Give up the port, where it was never started."""
        self._port.close()

    def _refresh(self) -> None:
        while True:
            self._authority.refresh()
            self._context.refresh()
            if self._ending.wait(LOOK_SECONDS):
                return


def _check_address(address: str) -> None:
    try:
        if address:
            ipaddress.ip_address(address)
    except ValueError as error:
        raise PortError(f"--bind-address: {error}") from None
