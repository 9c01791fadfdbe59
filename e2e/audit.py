"""Which of its permissions bayplan uses, as the API server's audit log tells.

A permission is (verb, API group, resource with subresource). The ServiceAccount's requests are
noted at every control plane of a test session; `granted` is what deploy/ has.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import DEPLOY, NAME, SYSTEM
from e2e.provider import wait_until

USER = f"system:serviceaccount:{SYSTEM}:{NAME}"
SHADOW = f"system:serviceaccount:{SYSTEM}:{NAME}-shadow"
Permission = tuple[str, str, str]


class Audit:
    """Audit logs of all control planes of a session, whichever worker has started them.

    Args:
        folder: where all workers of the session have their logs and notes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own = folder / str(os.getpid())
        self._own.mkdir()
        self._policy = self._own / "policy.yaml"
        self._policy.write_text(yaml.safe_dump(_policy()))
        self._logs = 0

    def flags(self) -> list[str]:
        """Flags for one more API server."""
        self._logs += 1
        log = self._own / f"{self._logs}.log"
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={log}"]

    def note(self, test: str) -> None:
        """Note that a test is over."""
        with (self._own / "over").open("a") as notes:
            notes.write(f"{test}\n")

    def wait_over(self, tests: Iterable[str], timeout: float) -> None:
        """Wait until all of ``tests`` are over, on other workers, too.

        Raises:
            TimeoutError: some are not within ``timeout`` seconds.
        """
        left = set(tests)

        def none_left() -> bool:
            notes = (path.read_text().splitlines() for path in self.folder.glob("*/over"))
            left.difference_update(*notes)
            return not left

        try:
            wait_until(none_left, timeout, "the end of all other tests", interval=0.5)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {', '.join(sorted(left))}") from None

    def used(self) -> set[Permission]:
        """What the ServiceAccount has asked for so far."""
        return {_permission(event) for event in self._events(USER)}

    def verbs(self, user: str) -> set[str]:
        """The verbs of all requests of that user so far."""
        return {str(event["verb"]) for event in self._events(user)}

    def _events(self, user: str) -> Iterator[dict[str, Any]]:
        for path in self.folder.glob("*/*.log"):
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if event["user"]["username"] == user:
                    yield event


def granted() -> set[Permission]:
    """What deploy/ allows the ServiceAccount, with the components that the tests use."""
    components = ("node-resource-topology", "network-overhead")
    files = ["base/rbac.yaml", *(f"components/{name}/rbac.yaml" for name in components)]
    files.append("components/improve/users.yaml")  # which components/improve-queues binds to it
    texts = [(DEPLOY / name).read_text() for name in files]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    rules = [rule for document in documents for rule in document.get("rules", ())]
    return {permission for rule in rules for permission in _of_rule(rule)}


def _of_rule(rule: dict[str, list[str]]) -> Iterator[Permission]:
    for verb in rule["verbs"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield verb, group, resource


def _permission(event: dict[str, Any]) -> Permission:
    target = event["objectRef"]
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    return str(event["verb"]), target.get("apiGroup", ""), resource


def _policy() -> dict[str, object]:
    mine = {"level": "Metadata", "users": [USER], "resources": _any_group()}
    shadows = {"level": "Metadata", "users": [SHADOW]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
        "rules": [mine, shadows, {"level": "None"}],
    }


def _any_group() -> list[dict[str, str]]:
    groups: Iterable[str] = sorted({group for _, group, _ in granted()})
    return [{"group": group} for group in groups]
