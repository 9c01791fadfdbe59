"""A kubeconfig for tests: one user, without credentials."""

from __future__ import annotations

from pathlib import Path

NOBODY = "http://127.0.0.1:1"
"""Where no API server is."""

_TEXT = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


def write_kubeconfig(folder: Path, url: str = NOBODY) -> str:
    """The path of one in ``folder`` for the API server at ``url``."""
    path = folder / "kubeconfig"
    path.write_text(_TEXT.format(url=url))
    return str(path)
