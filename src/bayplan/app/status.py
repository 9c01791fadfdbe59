"""Status: how a process is, for whoever is woken at three in the morning.

What other threads know (who leads, rates, plugins, the configuration) is said whatever the
scheduling thread does. What waits and what is in flight that thread says, if it comes to it; else
the answer has ``unanswered`` in place of that, and ``stuck`` where a step takes long. The format is
in docs/why.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bayplan import __version__
from bayplan.app.assembly import Core
from bayplan.app.leadership import Leadership
from bayplan.app.questions import BusyError, Questions
from bayplan.app.reload import Reloader
from bayplan.app.watchdog import Watchdog
from bayplan.telemetry.recent import Recent

Check = Callable[[], list[str]]
Answer = dict[str, Any]


class Status:
    """See the module's docstring. Any thread asks.

    Args:
        not_ready: see `bayplan.app.pages.probes`.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        core: Core,
        questions: Questions,
        leadership: Leadership,
        reloader: Reloader,
        watchdog: Watchdog,
        recent: Recent,
        not_ready: Check,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._core, self._questions, self._leadership = core, questions, leadership
        self._reloader, self._watchdog, self._recent = reloader, watchdog, recent
        self._not_ready, self._clock = not_ready, clock

    def answer(self, only: str = "") -> Answer:
        """The whole status; with ``only``, a namespace, nothing outside of the namespace is named.

        Errors have names, too, so these are left out then.
        """
        from bayplan.explain.why import API_VERSION  # noqa: PLC0415 - loaded when somebody asks

        answer: Answer = {"apiVersion": API_VERSION, "kind": "StatusAnswer", "namespace": only}
        answer |= {"version": __version__, **self._leader(only), **self._readiness(only)}
        answer |= {"rates": self._recent.rates(), "plugins": self._plugins()}
        answer["configuration"] = self._configuration(only)
        answer |= self._asked(only)
        answer["sentence"] = sentence(answer)
        return {key: value for key, value in answer.items() if value not in ("", [])}

    def _leader(self, only: str) -> Answer:
        leadership = self._leadership
        answer: Answer = {"leads": self._core.scheduler.active, "elects": leadership.elects}
        answer["leaderSince"] = leadership.since
        if not only:
            answer |= {"identity": leadership.identity, "leader": leadership.leader}
        return answer

    def _readiness(self, only: str) -> Answer:
        wrong = self._not_ready()
        answer: Answer = {"ready": not wrong, "notReady": [] if only else wrong}
        if self._watchdog.late:
            culprit = self._watchdog.culprit()
            pod = culprit.pod or self._core.scheduler.pulse.pod
            stuck: Answer = {"seconds": round(self._core.scheduler.pulse.age(), 1)}
            if culprit.plugin:
                stuck |= {"plugin": culprit.plugin, "point": culprit.where}
            if pod is not None and only in ("", pod.namespace):
                stuck["pod"] = pod.key
            answer["stuck"] = stuck
        return answer

    def _plugins(self) -> list[Answer]:
        return [
            {
                "plugin": one.plugin,
                "point": one.point,
                "failures": one.failures,
                "recentFailures": one.recent,
                **(
                    {"calls": one.calls, "hundredthOverSeconds": round(one.over, 4)}
                    if one.calls
                    else {}
                ),
            }
            for one in self._recent.plugins()
        ]

    def _configuration(self, only: str) -> Answer:
        reloader = self._reloader
        at = datetime.fromtimestamp(reloader.at, UTC)
        answer: Answer = {"read": f"{at:%Y-%m-%dT%H:%M:%SZ}", "used": not reloader.problem}
        answer |= {"reloads": reloader.counts["success"], "failed": reloader.counts["failure"]}
        if reloader.problem and not only:
            answer["problem"] = reloader.problem
        return answer

    def _asked(self, only: str) -> Answer:
        """What the scheduling thread says, or why that says nothing."""
        from bayplan.explain.status import in_flight, waiting  # noqa: PLC0415 - as above

        core, now = self._core, self._clock()

        def asked() -> Answer:
            return {
                "waiting": waiting(core.world, core.records, now, only),
                "inFlight": in_flight(core.world, core.scheduler.in_flight, now, only),
            }

        try:
            return self._questions.ask(asked)
        except BusyError as error:
            return {"unanswered": str(error)}


def sentence(answer: Answer) -> str:
    """What a person is told first."""
    parts = [_who(answer)]
    if stuck := answer.get("stuck"):
        plugin = f"plugin {stuck['plugin']} ({stuck['point']})" if "plugin" in stuck else "a step"
        parts.append(f"{plugin} has not returned for {stuck['seconds']:g} s")
    elif not answer["ready"]:
        parts.append("not ready" + "".join(f": {line}" for line in answer["notReady"][:1]))
    if not answer["configuration"]["used"]:
        parts.append("the files of the configuration have an error and are not what runs")
    failing = [one["plugin"] for one in answer["plugins"] if one["recentFailures"]]
    if failing:
        parts.append(f"{', '.join(dict.fromkeys(failing))} failed in the last minute")
    waits = answer.get("waiting")
    if waits is not None:
        pods = waits["pods"]
        parts.append(f"{pods} Pods wait" if pods != 1 else "1 Pod waits")
    return "; ".join(parts) + "."


def _who(answer: Answer) -> str:
    since = f" since {answer['leaderSince'][:19]}Z" if answer["leaderSince"] else ""
    if answer["leads"]:
        who = _short(answer.get("identity", "")) or "the scheduler"
        return f"{who} leads{since}" if answer["elects"] else f"{who} schedules, without a Lease"
    leader = _short(answer.get("leader", "another" if answer["leaderSince"] else ""))
    return f"this is a standby; {leader or 'nobody'} leads{since}"


def _short(identity: str) -> str:
    """The name of the Pod, or of the host."""
    return identity.partition("_")[0]
