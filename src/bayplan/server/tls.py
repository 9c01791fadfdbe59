"""TLS: the context of new connections, rebuilt when the certificates on disk have changed.

Connections that stand keep the context that they began with.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence

import structlog

from bayplan.server.certificates import Pair, Source
from bayplan.server.options import PortError
from bayplan.support.memory_file import MemoryFile

log = structlog.get_logger("port")

MIN_VERSIONS = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""Go's names. Go has 1.0 and 1.1, too, which are insecure."""
CIPHER_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{suite}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for suite, openssl in {
        "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "CHACHA20_POLY1305": "CHACHA20-POLY1305",
        "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
        "AES_128_CBC_SHA": "AES128-SHA",
        "AES_256_CBC_SHA": "AES256-SHA",
    }.items()
}
"""Go's names of TLS 1.2 suites that it does not call insecure, and OpenSSL's."""
TLS13_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Accepted and without effect, as with Go: TLS 1.3 always offers all of its suites."""

Made = tuple[Pair, bytes]


class ServingContext:
    """What new connections are served with.

    Args:
        pair: reads certificate and key.
        authorities: the PEM of those who sign clients' certificates; empty asks for none.
        min_version: a key of `MIN_VERSIONS`.
        cipher_suites: keys of `CIPHER_SUITES`, or of `TLS13_SUITES`.

    Raises:
        PortError: a version or a suite has no such name.
    """

    def __init__(
        self,
        pair: Source,
        authorities: Callable[[], bytes],
        min_version: str,
        cipher_suites: Sequence[str],
    ) -> None:
        if min_version not in MIN_VERSIONS:
            raise PortError(f"--tls-min-version must be {' or '.join(MIN_VERSIONS)}")
        unknown = [s for s in cipher_suites if s not in CIPHER_SUITES and s not in TLS13_SUITES]
        if unknown:
            offered = ", ".join(CIPHER_SUITES)
            raise PortError(f"--tls-cipher-suites: no suite {', '.join(unknown)}; one of {offered}")
        self._pair, self._authorities = pair, authorities
        self._min_version = MIN_VERSIONS[min_version]
        self._ciphers = ":".join(CIPHER_SUITES[s] for s in cipher_suites if s in CIPHER_SUITES)
        self._made: Made | None = None
        self._refused: object = None
        self._context: ssl.SSLContext | None = None

    def load(self) -> ssl.SSLContext:
        """The present context; reads the certificates at the first call.

        Raises:
            PortError: the certificate or the key cannot be used.
        """
        if self._context is None:
            try:
                self._use(self._read())
            except (OSError, ValueError) as error:
                raise PortError(f"TLS certificate: {error}") from error
        assert self._context is not None
        return self._context

    def refresh(self) -> None:
        """Use what has changed on disk; what cannot be used is logged once, and changes nothing."""
        if self._context is None:
            return
        try:
            now = self._read()
            if now != self._made:
                self._use(now)
                log.info("TLS certificates read again")
            self._refused = None
        except (OSError, ValueError) as error:
            if self._refused != str(error):
                self._refused = str(error)
                log.warning("TLS certificates not read; the previous ones stay", err=str(error))

    def _read(self) -> Made:
        return self._pair(), self._authorities()

    def _use(self, made: Made) -> None:
        pair, authorities = made
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._min_version
        # Peers could ask for handshakes without end.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        with MemoryFile(pair.certificate) as certificate, MemoryFile(pair.key) as key:
            context.load_cert_chain(certificate.path, key.path, password=_no_password)
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
            context.verify_mode = ssl.CERT_OPTIONAL
        self._context, self._made = context, made


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal.
    raise ValueError("the private key is encrypted")
