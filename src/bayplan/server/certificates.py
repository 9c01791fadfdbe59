"""Certificates: the certificate and the key of the port, and the sources of both."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from bayplan.server.options import PortError, PortOptions

PAIR_NAME = "bayplan"
LIFETIME = timedelta(days=3650)
"""Of a self-signed certificate. Clients can only compare its bytes."""


class Pair(NamedTuple):
    """PEM: a certificate with its chain, and the private key."""

    certificate: bytes
    key: bytes


Source = Callable[[], Pair]
"""Reads the pair as it is now; raises OSError."""


@dataclass(frozen=True)
class Files:
    """A pair of files, which may be replaced while the process runs."""

    certificate: Path
    key: Path

    def __call__(self) -> Pair:
        """Read both."""
        return Pair(self.certificate.read_bytes(), self.key.read_bytes())


def source(options: PortOptions) -> Source:
    """Where the options say that the pair comes from; without files, made when first asked for.

    Raises:
        PortError: only half of a pair is named, or the folder cannot be written to.
    """
    if options.cert_file is not None or options.key_file is not None:
        if options.cert_file is None or options.key_file is None:
            raise PortError("--tls-cert-file and --tls-private-key-file go together")
        return Files(options.cert_file, options.key_file)
    if options.cert_dir is None:
        return cache(partial(self_signed, options.bind_address))
    files = Files(options.cert_dir / f"{PAIR_NAME}.crt", options.cert_dir / f"{PAIR_NAME}.key")
    if not (files.certificate.exists() and files.key.exists()):
        _write(files, self_signed(options.bind_address))
    return files


def _write(files: Files, pair: Pair) -> None:
    try:
        files.key.parent.mkdir(parents=True, exist_ok=True)
        files.certificate.write_bytes(pair.certificate)
        files.key.unlink(missing_ok=True)
        files.key.touch(mode=0o600)
        files.key.write_bytes(pair.key)
    except OSError as error:
        raise PortError(f"--cert-dir: {error}") from error


def self_signed(bind_address: str) -> Pair:
    """A new pair for localhost and the address that is listened on."""
    # Imported here: it takes a fifth of a second, for those who name no certificate.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, PAIR_NAME)])
    addresses = [ipaddress.ip_address(a) for a in ("127.0.0.1", "::1", bind_address) if a]
    reachable = (x509.IPAddress(address) for address in addresses if not address.is_unspecified)
    names = [x509.DNSName("localhost"), *reachable]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
