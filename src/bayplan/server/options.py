"""Options of the port, named as kube-scheduler's flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SECURE_PORT = 10259
PROBES = ("/healthz", "/readyz", "/livez")


class PortError(Exception):
    """A port or a certificate cannot be used; the text says which, and why."""


@dataclass(frozen=True)
class PortOptions:
    """Where and how to listen.

    Attributes:
        secure_port: HTTPS; 0 is none.
        bind_address: of the secure port; empty or unspecified (0.0.0.0, ::) is every address.
        insecure_port: plain HTTP on 127.0.0.1, for everybody on this machine; 0 is none.
        cert_file: with ``key_file``, the certificate to show, followed by its chain. PEM.
        cert_dir: where ``bayplan.crt`` and ``bayplan.key`` are, or are written to if missing.
            Without any of these the certificate is made in memory.
        min_version: as Go names it, such as VersionTLS12.
        cipher_suites: of TLS 1.2, as Go names them; OpenSSL's choice if empty.
        client_ca_file: who may sign certificates of clients; else the API server's authority.
        authentication_kubeconfig: where tokens are reviewed, if not at the scheduler's API server.
        authorization_kubeconfig: the same for access.
        always_allow_paths: open to everybody; a trailing * stands for anything.
    """

    secure_port: int = SECURE_PORT
    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-scheduler's default
    insecure_port: int = 0
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    min_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    client_ca_file: Path | None = None
    authentication_kubeconfig: str | None = None
    authorization_kubeconfig: str | None = None
    always_allow_paths: tuple[str, ...] = PROBES
