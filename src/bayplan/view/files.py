"""Files: what the browser runs. These say nothing of any cluster."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def files() -> dict[str, Path]:
    """The files by name."""
    return {file.name: file for file in STATIC.iterdir() if file.suffix in TYPES}
