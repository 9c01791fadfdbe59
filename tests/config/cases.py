"""The configuration files of `cases.yaml`, for tests here and the comparison in e2e."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def _load() -> list[Case]:
    items = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
    return [
        Case(
            item["name"],
            item["file"] if "file" in item else HEADER + item["config"],
            tuple(item.get("errors", ())),
            tuple(item.get("warnings", ())),
        )
        for item in items
    ]


CASES = _load()
ACCEPTED = [case for case in CASES if not case.errors]
