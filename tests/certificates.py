"""A certificate authority for one test, and what it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates.

    Attributes:
        ca: its own certificate, PEM.
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        ca = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _builder(self._name, self._name, self._key).add_extension(ca, critical=True)
        self.ca = certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def issue(self, host: str, *organizations: str) -> tuple[bytes, bytes]:
        """Certificate and key of ``host``, or of a user in these organizations, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_alternative(host)])
        builder = _builder(_name(host, *organizations), self._name, key).add_extension(
            alternatives, critical=False
        )
        certificate = builder.sign(self._key, SHA256())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), pem

    def files(self, host: str, folder: Path, *organizations: str) -> tuple[Path, Path]:
        """The same as files."""
        paths = folder / f"{host}.crt", folder / f"{host}.key"
        for path, content in zip(paths, self.issue(host, *organizations), strict=True):
            path.write_bytes(content)
        return paths


def _name(name: str, *organizations: str) -> x509.Name:
    groups = (x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *groups])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
