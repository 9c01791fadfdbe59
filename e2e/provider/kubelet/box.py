"""Boxes: programs in namespaces of their own, in cgroups that are made for them and removed.

The kernel removes processes, mounts and interfaces of a box with its first process; its cgroups are
left, empty, and `Box.remove` removes them.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from e2e.provider.process import StartError
from e2e.provider.waiting import wait_until

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")


class Box:
    """A box that is not started yet: `argv` is the command that makes it.

    Args:
        name: its hostname, and the name of its cgroups: one of its own for each box.
        folder: for what is written in it; made here.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.groups = [parent / name for parent in cgroup_parents()]

    def argv(self, *program: str | Path, net: bool = False) -> list[str]:
        """Make its cgroups, and return the command that runs `program` in it."""
        for group in self.groups:
            group.mkdir(exist_ok=True)
            for limit in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group of version 1
                if (group.parent / limit).exists():
                    (group / limit).write_text((group.parent / limit).read_text())
        groups = " ".join(map(str, self.groups))
        command = ["env", "BOX_NET=1"] if net else []
        command += [str(HERE / "box.sh"), self._name, str(self._folder), groups]
        return command + [str(argument) for argument in program]

    def run(self, *program: str | Path, log: Path, **environment: str) -> None:
        """Run `program` in the box to its end.

        Raises:
            StartError: it failed; the message has the end of `log`.
        """
        try:
            run_logged(self.argv(*program), log, environment)
        finally:
            self.remove()

    def remove(self) -> None:
        """Wait for the end of what the box holds, and remove its cgroups and its files."""
        for group in self.groups:
            wait_until(partial(remove_group, group), 20, f"the end of {group}")
        shutil.rmtree(self._folder, ignore_errors=True)


def only_child(pid: int) -> int:
    """The process that the only child of a process is."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def run_logged(
    argv: list[str], log: Path, environment: Mapping[str, str], folder: Path | None = None
) -> None:
    """Run a command to its end, in `folder`, its output in `log`.

    Raises:
        StartError: it failed; the message has the end of `log`.
    """
    with log.open("wb") as output:
        run = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if run.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise StartError(f"{argv[-1]} failed; the end of {log}:\n{tail}")


def cgroup_parents() -> Iterator[Path]:
    """Where the cgroups of boxes are made: in version 1 below ours, in version 2 at the root.

    A group of version 2 that holds processes, as ours does, can limit no others.
    """
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
        return
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount = CGROUPS / controllers.removeprefix("name=")
        if controllers and mount.is_dir():
            yield mount / path.strip("/")


def remove_group(group: Path) -> bool:
    """Remove a cgroup and all below it; False while there are processes in it."""
    folders = [group, *(path for path in group.rglob("*") if path.is_dir())]
    try:
        for folder in sorted(folders, reverse=True):  # the inner ones first
            if folder.exists():
                folder.rmdir()
    except OSError:
        return False
    return True
