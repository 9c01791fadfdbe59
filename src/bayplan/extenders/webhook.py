"""Webhook: JSON over HTTP(S) to an extender, with persistent connections."""

from __future__ import annotations

import threading

import pycurl

from bayplan.client.connection import named_address
from bayplan.config.types import Extender, ExtenderTLSConfig


class WebhookError(Exception):
    """The extender did not answer, or not with 200."""


class Webhook:
    """One extender's URL, to which a verb is one more path element. Safe to share among threads."""

    def __init__(self, config: Extender) -> None:
        self.url = config.url_prefix.rstrip("/")
        tls = config.tls_config or (ExtenderTLSConfig() if config.enable_https else None)
        server_name = tls.server_name if tls and self.url.startswith("https:") else None
        self._base, self._connect_to = named_address(self.url, server_name)
        self._timeout_ms = max(1, int(config.http_timeout * 1000))
        self._tls = tls
        self._enable_https = config.enable_https
        self._local = threading.local()

    def call(self, verb: str, body: bytes) -> bytes:
        """POST ``body`` to the verb; the answer's body.

        Raises:
            WebhookError: a timeout, or another status than 200.
        """
        handle: pycurl.Curl = self._handle()
        url = f"{self.url}/{verb}"
        chunks: list[bytes] = []
        handle.setopt(pycurl.URL, f"{self._base}/{verb}")
        handle.setopt(pycurl.POSTFIELDS, body)
        handle.setopt(pycurl.WRITEFUNCTION, chunks.append)
        try:
            handle.perform()
        except pycurl.error as error:
            raise WebhookError(f"extender at URL {url}: {error.args[1]}") from None
        status = handle.getinfo(pycurl.RESPONSE_CODE)
        if status != 200:
            raise WebhookError(f"failed {verb} with extender at URL {url}, code {status}")
        return b"".join(chunks)

    def _handle(self) -> pycurl.Curl:
        handle = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = self._new_handle()
        return handle

    def _new_handle(self) -> pycurl.Curl:
        handle = pycurl.Curl()
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.TCP_NODELAY, 1)
        handle.setopt(pycurl.TIMEOUT_MS, self._timeout_ms)
        handle.setopt(pycurl.HTTPHEADER, ["Content-Type: application/json", "Expect:"])
        if self._connect_to:
            handle.setopt(pycurl.CONNECT_TO, [self._connect_to])
        if self._tls is not None:
            _secure(handle, self._tls, self._enable_https)
        return handle


def _secure(handle: pycurl.Curl, tls: ExtenderTLSConfig, enable_https: bool) -> None:
    unknown_ca = enable_https and not (tls.ca_file or tls.ca_data)
    verify = not (tls.insecure or unknown_ca)
    handle.setopt(pycurl.SSL_VERIFYPEER, int(verify))
    handle.setopt(pycurl.SSL_VERIFYHOST, 2 if verify else 0)
    for content, blob, file, option in (
        (tls.ca_data, pycurl.CAINFO_BLOB, tls.ca_file, pycurl.CAINFO),
        (tls.cert_data, pycurl.SSLCERT_BLOB, tls.cert_file, pycurl.SSLCERT),
        (tls.key_data, pycurl.SSLKEY_BLOB, tls.key_file, pycurl.SSLKEY),
    ):
        if content:
            handle.setopt(blob, content)
        elif file:
            handle.setopt(option, file)
