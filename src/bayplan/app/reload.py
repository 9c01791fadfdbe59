"""Reload: replaces configuration and plugins while scheduling continues.

On SIGHUP, and when a file has changed and then stayed the same for one look:

    read and check everything > watch the kinds that are new > (scheduling thread, between two Pods)
    make the plugins and let the profiles decide > watch the new profiles' kinds alone

If any step fails, nothing changes, and log, metrics and an event on the Lease report it. Pods in
flight finish with the old plugins; see `bayplan.scheduler.Scheduler.adopt`.

The reasons: docs/decisions/0013-reload-between-two-pods.md.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field

import structlog

from bayplan.api.kinds import Kind
from bayplan.app.assembly import Core, Ports, make_profiles
from bayplan.app.leadership import Leadership
from bayplan.app.load import LoadFeeds
from bayplan.app.sources import Sources
from bayplan.config import ConfigError, EffectiveConfig, KubeSchedulerConfiguration
from bayplan.engine.registry import PluginLoadError, Registry
from bayplan.inbox.messages import Command
from bayplan.informers.factory import Informers
from bayplan.support.text import error_text

log = structlog.get_logger("reload")

LOOK_SECONDS = 2.0
"""How often the files are looked at."""
SYNC_SECONDS = 30.0
"""How long the first lists of kinds that new plugins ask for may take."""
NEED_RESTART = {
    "clientConnection": "client_connection",
    "extenders": "extenders",
    "leaderElection": "leader_election",
    "parallelism": "parallelism",
}
"""Settings of parts that live as long as the process."""


class ReloadError(Exception):
    """The new configuration cannot be used; the text has a line for each fault."""


class Reloader:
    """Watches the files of one process, on a thread of its own.

    Attributes:
        config: what runs.
        at: when the files were read last, well or not; seconds since the epoch.
        problem: why they could not be used then; "" if they are what runs.
    """

    def __init__(
        self,
        sources: Sources,
        config: EffectiveConfig,
        core: Core,
        ports: Ports,
        informers: Informers,
        leadership: Leadership,
        load: LoadFeeds,
    ) -> None:
        self._sources = sources
        self.config = config
        self._core = core
        self._ports = ports
        self._informers = informers
        self._leadership = leadership
        self._load = load
        self._asked = threading.Event()
        self._uncollected = False
        self._used = self._seen = sources.fingerprint()
        self.counts: Counter[str] = Counter(success=0, failure=0)
        self.at, self.problem = time.time(), ""
        self._thread = threading.Thread(target=self._run, name="reload", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    @property
    def failing(self) -> bool:
        """Whether what the files say is not what runs."""
        return bool(self.problem)

    def request(self) -> None:
        """Reload now, whether or not a file has changed. Any thread, or a signal handler."""
        self._asked.set()

    def _run(self) -> None:
        while not self._core.scheduler.stopping:
            asked = self._asked.wait(LOOK_SECONDS)
            self._asked.clear()
            self.look(asked=asked)

    def look(self, *, asked: bool = False) -> None:
        """Reload if ``asked``, or if the files have changed and are written to no more."""
        now = self._sources.fingerprint()
        settled, self._seen = now == self._seen, now
        if asked or (settled and now != self._used):
            self._used = now
            self._reload()
        if self._uncollected and not self._core.scheduler.retiring:
            self._uncollected = False
            self._ports.inbox.post(Collect())

    def _reload(self) -> None:
        started = time.monotonic()
        try:
            config = self._load_and_swap()
        except (ReloadError, ConfigError, PluginLoadError) as error:
            self._failed(str(error))
            return
        except BaseException as error:
            # Also what is no Exception: this thread must go on to look.
            log.exception("reload broke")
            self._failed(error_text(error))
            return
        self.config, self.at, self.problem = config, time.time(), ""
        self._uncollected = True
        self.counts["success"] += 1
        for warning in config.warnings:
            log.warning("Configuration", warning=str(warning))
        seconds = round(time.monotonic() - started, 3)
        profiles = sorted(profile.scheduler_name for profile in config.profiles)
        log.info("Configuration reloaded", profiles=profiles, seconds=seconds)
        note = f"profiles {', '.join(profiles)} decide by the new configuration"
        self._leadership.event("Normal", "ConfigurationReloaded", note)

    def _failed(self, why: str) -> None:
        self.at, self.problem = time.time(), why
        self.counts["failure"] += 1
        log.error("Configuration not reloaded; the previous one goes on", err=why)
        self._leadership.event("Warning", "ReloadFailed", why)

    def _load_and_swap(self) -> EffectiveConfig:
        registry, config = self._sources.read()
        changed = needs_restart(self.config.settings, config.settings)
        if changed:
            raise ReloadError(f"restart bayplan for a change of {', '.join(changed)}")
        previous = set(self._informers.statistics())
        kinds = set(registry.kinds(config))
        self._informers.watch(previous | kinds)
        try:
            self._wait_for(kinds)
            swap = Swap(self, registry, config)
            self._ports.inbox.post(swap)
            swap.done.result()
        except BaseException:
            self._informers.watch(previous)
            raise
        self._informers.watch(kinds)
        return config

    def _wait_for(self, kinds: set[Kind[object]]) -> None:
        deadline = time.monotonic() + SYNC_SECONDS
        while unsynced := {k: why for k, why in self._informers.unsynced().items() if k in kinds}:
            if time.monotonic() > deadline or self._core.scheduler.stopping:
                reasons = (f"{kind.name}: {why}" for kind, why in unsynced.items())
                raise ReloadError("cannot list what plugins ask for: " + "; ".join(reasons))
            time.sleep(0.05)

    def swap(self, registry: Registry, config: EffectiveConfig) -> None:
        """Make the profiles and let them decide. Scheduling thread only.

        Raises:
            ConfigError: a plugin cannot be made; nothing has changed.
        """
        profiles = make_profiles(
            config, registry, self._core.world, self._core.placers, self._ports
        )
        self._core.scheduler.adopt(profiles)
        self._load.watch(profiles.sources())


@dataclass(frozen=True)
class Swap(Command):
    """A configuration that was found good, to be used from now on."""

    reloader: Reloader = field(repr=False)
    registry: Registry = field(repr=False)
    config: EffectiveConfig = field(repr=False)
    done: Future[None] = field(default_factory=Future, repr=False)

    def run(self) -> None:
        """See `Reloader.swap`; what comes of it is in `done`."""
        try:
            self.reloader.swap(self.registry, self.config)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


@dataclass(frozen=True)
class Collect(Command):
    """The plugins that were replaced are closed: free their memory.

    They were frozen with all else that the collector has not to look at.
    """

    def run(self) -> None:
        """Stops everything for some hundred milliseconds where the cluster is large."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def needs_restart(old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration) -> list[str]:
    """The changed settings for which a reload is not enough."""
    return [
        name for name, field in NEED_RESTART.items() if getattr(old, field) != getattr(new, field)
    ]
