"""How the controllers reach the API server."""

from __future__ import annotations

import ssl

from bayplan.controllers.operator import _ConnectionInfo


def test_it_trusts_certificates_without_an_authority_key_identifier() -> None:
    """As the scheduler does; Python refuses them from 3.13 on."""
    context = _ConnectionInfo(server="https://localhost").as_ssl_context()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
