"""What ``bayplan explain`` and ``bayplan simulate`` print of a file, as data."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import structlog
from typer.testing import CliRunner

Answers = list[dict[str, Any]]


def explained(path: Path, config: Path | None = None, *more: str) -> Answers:
    """The answers of ``bayplan explain``."""
    return answers("explain", path, config, *more)


def simulated(path: Path, config: Path | None = None) -> Answers:
    """The answers of ``bayplan simulate``."""
    return answers("simulate", path, config)


def answers(command: str, path: Path, config: Path | None, *more: str) -> Answers:
    """What the command prints as JSON, called in this process; its exceptions are raised."""
    module = importlib.import_module(f"bayplan.cli.{command}")
    configured = [] if config is None else ["--config", str(config)]
    args = ["-f", str(path), "-o", "json", *configured, *more]
    logging = structlog.get_config()
    try:
        result = CliRunner().invoke(module.app, args, catch_exceptions=False)
    finally:
        structlog.configure(**logging)
    assert result.exit_code in (0, 1), result.output
    return unfolded(json.loads(result.stdout))


def unfolded(printed: Answers) -> Answers:
    """The answers with all that is equal to another one written out."""
    by_pod = {one["pod"]: one for one in printed if "as" not in one}
    return [by_pod[one.pop("as")] | one if "as" in one else one for one in printed]
