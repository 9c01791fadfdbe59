"""The oracle as a child process: started once, asked about many clusters."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.conformance.generator import Case


class OracleError(Exception):
    """The oracle refused a cluster or configuration, or died."""


def write_case(case: Case, folder: Path) -> tuple[Path, Path | None]:
    """Write a case as the files that both sides read: the cluster, and its configuration if any."""
    cluster = folder / f"{case.name}.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": case.items}) + "\n")
    if case.config is None:
        return cluster, None
    config = folder / f"{case.name}.config.json"
    config.write_text(json.dumps(case.config))
    return cluster, config


class Oracle:
    """``oracle serve``: a line of question in, a line of answer out. Use it in a with statement."""

    def __init__(self, program: Path) -> None:
        self._child = subprocess.Popen(
            [program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def ask(
        self,
        mode: str,
        cluster: Path,
        config: Path | None = None,
        pod: str = "",
        gates: str = "",
    ) -> list[Any]:
        """Ask about a cluster file.

        Args:
            mode: explain, simulate or validate.
            cluster: a file of YAML documents or a JSON List.
            config: a KubeSchedulerConfiguration; without one, every pending Pod is judged by the
                default profile.
            pod: the only one to explain; one that runs is judged as if it were pending.
            gates: the feature gates of groups that are on, separated by commas.

        Returns:
            What the mode prints, as explain-format describes it.

        Raises:
            OracleError: the files make no sense to kube-scheduler.
        """
        question = {
            "mode": mode,
            "cluster": str(cluster),
            "config": str(config) if config else "",
            "pod": pod,
            "gates": gates,
        }
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise OracleError(f"the oracle died over {cluster}")
        answer = json.loads(line)
        if "error" in answer:
            raise OracleError(f"{cluster}: {answer['error']}")
        result: list[Any] = answer.get("result") or []
        return result
