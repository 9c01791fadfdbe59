"""ClientCA: who signs the certificates of clients.

A file, or else the API server's own authority, which the API server writes into a ConfigMap that
every component may be allowed to read. Until that was read, certificates are not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from bayplan.client.errors import ApiError
from bayplan.client.http import Http

log = structlog.get_logger("port")

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
KEY = "client-ca-file"
AGE_SECONDS = 60.0
"""How long what was read from the ConfigMap is good."""
RETRY_SECONDS = 10.0


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ConfigMapCA:
    """The API server's authority. `refresh` runs on one thread; all threads may read.

    Args:
        key: which authority: by default that of certificates of users.

    Attributes:
        data: the ConfigMap as it was last read; empty before.
    """

    def __init__(
        self, http: Http, clock: Callable[[], float] = time.monotonic, key: str = KEY
    ) -> None:
        self._http, self._clock, self._key = http, clock, key
        self._again_at = float("-inf")
        self._problem = ""
        self.data: Mapping[str, str] = {}

    def __call__(self) -> bytes:
        """As it was last read; empty before."""
        return self.data.get(self._key, "").encode()

    def refresh(self) -> None:
        """Read the ConfigMap again if the last answer is old. Waits for the API server."""
        if self._clock() < self._again_at:
            return
        try:
            config_map = msgspec.json.decode(self._http.get(CONFIG_MAP), type=_ConfigMap)
            self.data, self._problem = config_map.data, ""
            self._again_at = self._clock() + AGE_SECONDS
        except (ApiError, msgspec.DecodeError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("The authority of client certificates is not known", err=str(error))
            self._again_at = self._clock() + RETRY_SECONDS


class FileCA:
    """An authority that is in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> bytes:
        """Read it; raises OSError."""
        return self._path.read_bytes()

    def refresh(self) -> None:
        """Nothing to do: it is read at each call."""
