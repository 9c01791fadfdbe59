"""Which of its permissions bayplan uses, as the API server's audit log tells.

A permission is (verb, API group, resource with subresource). The ServiceAccount's requests are
noted at every control plane of a test session; `granted` is what deploy/ has.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from e2e.cluster import DEPLOY, NAME, SYSTEM

USER = f"system:serviceaccount:{SYSTEM}:{NAME}"
Permission = tuple[str, str, str]


class Audit:
    """Audit logs of all control planes of a session, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._policy = folder / "policy.yaml"
        self._policy.write_text(yaml.safe_dump(_policy()))
        self._logs = 0

    def flags(self) -> list[str]:
        """Flags for one more API server."""
        self._logs += 1
        log = self._folder / f"{self._logs}.log"
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={log}"]

    def used(self) -> set[Permission]:
        """What the ServiceAccount has asked for so far."""
        logs = (path.read_text().splitlines() for path in self._folder.glob("*.log"))
        return {_permission(json.loads(line)) for lines in logs for line in lines}


def granted() -> set[Permission]:
    """What deploy/ allows the ServiceAccount."""
    documents = yaml.safe_load_all((DEPLOY / "base" / "rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", ())]
    return {permission for rule in rules for permission in _of_rule(rule)}


def _of_rule(rule: dict[str, list[str]]) -> Iterator[Permission]:
    for verb in rule["verbs"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield verb, group, resource


def _permission(event: dict[str, dict[str, str]]) -> Permission:
    target = event["objectRef"]
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    return str(event["verb"]), target.get("apiGroup", ""), resource


def _policy() -> dict[str, object]:
    mine = {"level": "Metadata", "users": [USER], "resources": _any_group()}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
        "rules": [mine, {"level": "None"}],
    }


def _any_group() -> list[dict[str, str]]:
    groups: Iterable[str] = sorted({group for _, group, _ in granted()})
    return [{"group": group} for group in groups]
