"""`python -m e2e.provider up|down|kubeconfig|build`: a control plane to play with.

`up` notes itself in the cache folder, which is how the others find it.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

import psutil

from e2e.provider.choose import chosen, provide
from e2e.provider.golang import BuildError, cache_dir
from e2e.provider.process import StartError
from e2e.provider.programs import BESIDE
from e2e.provider.waiting import say


def up() -> None:
    """Run a control plane with kwok and kube-scheduler until Ctrl-C or SIGTERM."""
    if _find():
        sys.exit("one is up already: end it with `down`")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with provide() as cluster:
            cluster.start_controller_manager()
            cluster.start_kwok()
            cluster.start_kube_scheduler()
            print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
            _note(cluster.kubeconfig)
            say("running; Ctrl-C ends it")
            signal.pause()
    except KeyboardInterrupt:
        say("ended")
    finally:
        _notes().unlink(missing_ok=True)


def down() -> None:
    """End the one that is up."""
    process, _ = _find() or sys.exit("none is up")
    process.terminate()
    process.wait(30)


def kubeconfig() -> None:
    """Print the path of the kubeconfig of the one that is up."""
    _, path = _find() or sys.exit("none is up")
    print(path)


def build() -> None:
    """Get what the tests need into the cache; print the folders of programs beside the cluster."""
    chosen().prepare()
    for program in BESIDE:
        print(program.binary().parent)


def _notes() -> Path:
    return cache_dir() / "up.json"


def _note(path: Path) -> None:
    process = psutil.Process()
    note = {"pid": process.pid, "created": process.create_time(), "kubeconfig": str(path)}
    _notes().write_text(json.dumps(note))


def _find() -> tuple[psutil.Process, Path] | None:
    """Return the process that is up, if it still is the one of the note, and its kubeconfig."""
    if not _notes().exists():
        return None
    note = json.loads(_notes().read_text())
    try:
        process = psutil.Process(note["pid"])
        same = process.create_time() == note["created"]
    except psutil.NoSuchProcess:
        return None
    return (process, Path(note["kubeconfig"])) if same else None


def main() -> None:
    """Run the command that the arguments name."""
    commands = {command.__name__: command for command in (up, down, kubeconfig, build)}
    parser = argparse.ArgumentParser(prog="python -m e2e.provider", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    for name, command in commands.items():
        subparsers.add_parser(name, help=command.__doc__)
    try:
        commands[parser.parse_args().command]()
    except (LookupError, StartError, BuildError) as error:
        sys.exit(f"error: {error.args[0]}")


if __name__ == "__main__":
    main()
