"""Finds and loads the credentials: kubeconfig file or the Pod's service account.

The official client reads the files (contexts, exec plugins, inline data). It is imported only here,
and late, because that takes most of a second. What it does not do is done here: say in one sentence
what is wrong with which file, find the ``tokenFile`` that may be rewritten while we run, and keep
private keys off the disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bayplan.support.memory_file import MemoryFile

DEFAULT_PATH = "~/.kube/config"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 (what is put there is in a folder of our own)
"""A folder in memory, on Linux; containers have it even where their root is read-only."""
SERVICE_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FILES = ("ssl_ca_cert", "cert_file", "key_file")


class KubeconfigError(Exception):
    """There are no usable credentials; the text names the file and what is wrong with it."""


class Kubeconfig(NamedTuple):
    """Credentials of a file, of the current context or of another one.

    Attributes:
        path: a kubeconfig; None takes the service account of the Pod that we run in, and outside of
            Pods ``$KUBECONFIG`` or ``~/.kube/config``.
        context: as of ``kubectl --context``; never the service account.
    """

    path: str | None = None
    context: str | None = None


Where = Kubeconfig | str | None
"""A `Kubeconfig`, or the path of one."""


def load(where: Where, environ: Mapping[str, str] = os.environ) -> tuple[Any, Path | None]:
    """Load credentials.

    Args:
        where: the file and the context.
        environ: the environment.

    Returns:
        The official client's Configuration, and the file to read the bearer token from again: the
        service account's, or the one that the kubeconfig names, if it does.

    Raises:
        KubeconfigError: nothing found, or not usable.
    """
    path, context = where if isinstance(where, Kubeconfig) else (where, None)
    if path is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return _load_in_cluster()
    paths = path or environ.get("KUBECONFIG") or DEFAULT_PATH
    existing = _files(paths)
    if not existing:
        hint = "" if path else " (and this is no Pod: KUBERNETES_SERVICE_HOST is not set)"
        raise KubeconfigError(f"kubeconfig {paths}: no such file{hint}")
    return _load_files(paths, existing, context)


def namespace(where: Where, environ: Mapping[str, str] = os.environ) -> str:
    """The namespace of the context, as kubectl takes it where ``-n`` is not given.

    ``default`` where none is named, or where there are no credentials, which `load` will say.
    """
    path, context = where if isinstance(where, Kubeconfig) else (where, None)
    if path is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return SERVICE_NAMESPACE.read_text().strip() if SERVICE_NAMESPACE.is_file() else "default"
    files = _files(path or environ.get("KUBECONFIG") or DEFAULT_PATH)
    try:
        documents = [(file, _read(file)) for file in files]
        found = _named(documents, "contexts", "context", context or _current(documents))
        named = found[0].get("namespace") if found else None
    except (KubeconfigError, LookupError, TypeError, AttributeError):
        return "default"
    return named or "default"


def _files(paths: str) -> list[Path]:
    files = [Path(p).expanduser() for p in paths.split(os.pathsep) if p]
    return [file for file in files if file.is_file()]


def _load_in_cluster() -> tuple[Any, Path]:
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, incluster_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        incluster_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise KubeconfigError(f"in-cluster credentials: {error}") from error
    # The official client would go on for a minute with a token that was refused.
    return configuration, Path(incluster_config.SERVICE_TOKEN_FILENAME)


def _load_files(wanted: str, files: list[Path], context: str | None) -> tuple[Any, Path | None]:
    documents = [(f, _read(f)) for f in files]
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        # The official loader writes inline certificates, and those of exec plugins, to files.
        place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=place) as folder:
            load_kube_config(  # type: ignore[no-untyped-call]
                wanted,
                context,
                client_configuration=configuration,
                persist_config=False,
                temp_file_path=folder,
            )
            _keep_in_memory(configuration, folder)
        user, home = _user(documents, context or _current(documents))
    # The official loader meets unexpected YAML with whatever exception the access raises.
    except (ConfigException, LookupError, TypeError, AttributeError, ValueError, OSError) as error:
        raise KubeconfigError(f"kubeconfig {wanted}: {_sentence(error)}") from error
    if "exec" in user and not (configuration.api_key or configuration.cert_file):
        command = (user["exec"] or {}).get("command")
        raise KubeconfigError(f"kubeconfig {wanted}: exec plugin {command} gave no credentials")
    token_file = user.get("tokenFile")
    return configuration, home / token_file if token_file else None


def _keep_in_memory(configuration: Any, folder: str) -> None:
    """Replace the certificates and keys in ``folder``, which will be removed, by memory files."""
    paths = {name: getattr(configuration, name) for name in _FILES}
    files = {
        name: _in_memory(Path(path).read_bytes())
        for name, path in paths.items()
        if path and Path(path).is_relative_to(folder)
    }
    vars(configuration).update(files)
    refresh = configuration.refresh_api_key_hook
    if refresh is None:
        return

    def refresh_token(configuration: Any) -> None:
        refresh(configuration)  # sets the paths and its own hook again, too
        vars(configuration).update(files, refresh_api_key_hook=refresh_token)

    configuration.refresh_api_key_hook = refresh_token


@cache
def _in_memory(content: bytes) -> str:
    """Path of a memory file, one for each content, for as long as the process runs."""
    return MemoryFile(content).path


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise KubeconfigError(f"kubeconfig {file}: not valid YAML{where}: {problem}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise KubeconfigError(f"kubeconfig {file}: {reason}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {file}: not a kubeconfig (no mapping at the top)")
    return document


def _current(documents: list[tuple[Path, dict[str, Any]]]) -> str | None:
    # The official loader lets the last file decide the context, and the first a name's meaning.
    current = [d["current-context"] for _, d in documents if d.get("current-context")]
    return current[-1] if current else None


def _user(
    documents: list[tuple[Path, dict[str, Any]]], context: str | None
) -> tuple[dict[str, Any], Path]:
    """The user entry of the context, and the folder of the file with this entry."""
    contexts = _named(documents, "contexts", "context", context)
    name = contexts[0].get("user") if contexts else None
    return _named(documents, "users", "user", name) or ({}, documents[0][0].parent)


def _named(
    documents: list[tuple[Path, dict[str, Any]]], section: str, key: str, name: str | None
) -> tuple[dict[str, Any], Path] | None:
    for file, document in documents:
        for entry in document.get(section) or ():
            if entry["name"] == name:
                return entry.get(key) or {}, file.parent
    return None


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, KeyError):
        return f"{text} is missing"
    return text.removeprefix("Invalid kube-config file. ").rstrip(".") or type(error).__name__
