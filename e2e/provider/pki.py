"""Certificates of one control plane: an authority made for one run, and what it signs.

A listener that shows a certificate of this authority is one of ours: nobody else has its keys.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)


@dataclass(frozen=True)
class KeyPair:
    """PEM files of a certificate and of its private key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority; what it signs goes into `directory`, which only the owner reads."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("bayplan-e2e")
        ca = _certificate(self._name, self._name, self._key.public_key())
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.cert = directory / "ca.crt"
        self.cert.write_bytes(_pem(ca.sign(self._key, hashes.SHA256())))

    def issue(self, file: str, common_name: str, organization: str = "", *hosts: str) -> KeyPair:
        """Sign a certificate for a user, or for a server on the loopback and other `hosts`."""
        key = self.new_key(file)
        cert = (
            _certificate(_name(common_name, organization), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(), critical=False)
            .add_extension(_names(hosts), critical=False)
        )
        pair = KeyPair(self._directory / f"{file}.crt", self._directory / f"{file}.key")
        pair.cert.write_bytes(_pem(cert.sign(self._key, hashes.SHA256())))
        return pair

    def new_key(self, file: str) -> ec.EllipticCurvePrivateKey:
        """Make a private key and write it to `<file>.key`."""
        key = ec.generate_private_key(ec.SECP256R1())
        path = self._directory / f"{file}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                # kube-apiserver reads keys for ServiceAccount tokens in this format only.
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return key


def _name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _usage() -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


def _names(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_host(host) for host in ("localhost", "127.0.0.1", *hosts)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)
