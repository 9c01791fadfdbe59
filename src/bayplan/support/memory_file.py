"""Files in memory, for libraries that take certificates only by path.

A container with a read-only root file system may have no place to write to, and a private key
should not be written anywhere.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class MemoryFile:
    """A file with this content, readable by this process, until `close` or the process ends.

    Where the operating system has no such files (it is not Linux), a temporary one on disk.

    Attributes:
        path: what to open.
    """

    def __init__(self, content: bytes) -> None:
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("bayplan", os.MFD_CLOEXEC)
            self._on_disk = ""
            self.path = f"/proc/self/fd/{self._descriptor}"
        else:
            self._descriptor, self._on_disk = tempfile.mkstemp(prefix="bayplan-")
            self.path = self._on_disk
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(content)

    def close(self) -> None:
        """The file is gone."""
        os.close(self._descriptor)
        if self._on_disk:
            Path(self._on_disk).unlink()

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
