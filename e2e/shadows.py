"""A shadow as a process, and what it says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from e2e.provider import ControlPlane, Part, wait_until
from e2e.provider.process import Endpoint, free_port, unverified

SOON = 120.0
_numbers = count()


class Shadow(Part):
    """``bayplan shadow`` of a control plane.

    Args:
        plane: what it looks at.
        kubeconfig: as whom.
        flags: more flags.

    Attributes:
        pages: with names of Pods and nodes.
    """

    def __init__(self, plane: ControlPlane, kubeconfig: Path, flags: Iterable[str] = ()) -> None:
        pages, metrics = free_port(), free_port()
        argv = [sys.executable, "-m", "bayplan", "shadow", f"--kubeconfig={kubeconfig}"]
        argv += [f"--port={pages}", f"--metrics-port={metrics}", "--bind-address=127.0.0.1"]
        log = plane.folder / f"shadow-{next(_numbers)}.log"
        endpoint = Endpoint(f"http://127.0.0.1:{metrics}", unverified())
        super().__init__("shadow", [*argv, *flags], log, endpoint, "/readyz")
        self.pages = Endpoint(f"http://127.0.0.1:{pages}", unverified())

    def report(self) -> dict[str, Any]:
        """The report."""
        return json.loads(self.pages.get("/report", timeout=30))  # type: ignore[no-any-return]

    def why(self, namespace: str, pod: str) -> dict[str, Any]:
        """What it says of a Pod."""
        answer = self.pages.get(f"/why?namespace={namespace}&pod={pod}")
        return json.loads(answer)  # type: ignore[no-any-return]

    def settled(self) -> dict[str, Any]:
        """The report once nothing waits to be judged any more.

        What has happened by now is judged after the lookahead; that is when two reports in a row,
        so far apart, are alike.
        """
        seen: list[object] = [None]

        def alike() -> dict[str, Any] | None:
            report = self.report()
            seen.append((report.get("outcomes"), report.get("notCompared")))
            return report if seen[-1] == seen[-2] and not report["behindSeconds"] else None

        return wait_until(alike, SOON, "a report that stays", interval=1.5) or {}

    def wait_seen(self, decisions: int) -> dict[str, Any]:
        """Wait until that many decisions were seen, compared or not; returns the report."""

        def seen() -> dict[str, Any] | None:
            report = self.report()
            number = report["compared"] + sum(report.get("notCompared", {}).values())
            return report if number >= decisions else None

        return wait_until(seen, SOON, f"{decisions} decisions seen") or {}
