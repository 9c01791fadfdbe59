"""Completion: names of Pods and groups for the shell, also by ``kubectl bayplan``.

kubectl calls ``kubectl_complete-bayplan`` with the words so far, the last one unfinished. It prints
what may stand there, and at the end how: ``:4`` is no names of files.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from typing import Any
from urllib.parse import urlencode

import msgspec
import typer

from bayplan.api.kinds import JOB, JOB_SET, POD, POD_GROUP, Kind
from bayplan.api.lists import ObjectList
from bayplan.api.meta import ObjectMeta
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError

MOST = 500
SECONDS = 3.0
_NO_FILES = ":4"
_KINDS: dict[str, Kind[Any]] = {
    "pod/": POD,
    "podgroup/": POD_GROUP,
    "job/": JOB,
    "jobset/": JOB_SET,
}


class _Named(msgspec.Struct):
    metadata: ObjectMeta


_decode = msgspec.json.Decoder(ObjectList[_Named]).decode


def subjects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Pods or groups that begin so; nothing where the cluster does not say."""
    kind, slash, _ = incomplete.partition("/")
    before = f"{kind}/" if slash else ""
    listed = _KINDS.get(before or "pod/")
    if listed is None:
        return []
    given = ctx.params
    where = Kubeconfig(given.get("kubeconfig"), given.get("context"))
    try:
        namespace = given.get("namespace") or credentials.namespace(where)
        path = f"{listed.path(namespace)}?{urlencode({'limit': MOST})}"
        page = _decode(Http(Connection.load(where), max_tries=1).get(path, SECONDS))
    except (ApiError, KubeconfigError, msgspec.DecodeError):
        return []
    names = [before + one.metadata.name for one in page.items or ()]
    kinds = [] if slash else list(_KINDS)
    return [name for name in (*names, *kinds) if name.startswith(incomplete)]


def main() -> None:
    """Entry point of ``kubectl_complete-bayplan``: as bash would ask ``bayplan`` itself."""
    from bayplan.cli.app import app  # noqa: PLC0415

    words = sys.argv[1:] or [""]
    os.environ |= {
        "_BAYPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["bayplan", *words[:-1]]) + f" {words[-1]}",
        "COMP_CWORD": str(len(words)),
    }
    said = io.StringIO()
    with suppress(SystemExit), redirect_stdout(said):
        app(prog_name="bayplan")
    print("\n".join([*filter(None, said.getvalue().splitlines()), _NO_FILES]))
