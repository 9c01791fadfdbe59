"""Tracing: attempts as OpenTelemetry spans.

    Schedule                    one attempt of a Pod; parent: the Pod's annotation traceparent
      PreFilter, Filter, ...    extension points, each with the calls of plugins that were slow
      Bind                      the binding cycle, to its end
        WaitOnPermit
        DefaultBinder, ...      slow calls of plugins on the worker
        POST, PATCH, ...        requests to the API server for this Pod

The scheduling thread runs one attempt at a time, so what it reports belongs to that. A worker says
which Pod it serves. A request of the dispatcher is found by the Pod's path. Everything is reported
when it has ended, so spans are made with times of the past. What the sampler does not want costs a
lookup. Groups of Pods are not traced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.telemetry.instrument import Instrument

SLOW_SECONDS = 0.001
"""Calls of plugins that took at least this long are spans."""
ANNOTATION = "traceparent"
"""Of a Pod: the trace that its attempts belong to (W3C Trace Context); with ``tracestate``."""

Attributes = Mapping[str, str | int | bool]


class _Call(NamedTuple):
    """A slow call of a plugin, in nanoseconds of Unix time."""

    plugin: str
    point: str
    start: int
    end: int


@dataclass
class _Attempt:
    """An attempt whose spans are open."""

    uid: str
    span: trace.Span
    calls: list[_Call] = field(default_factory=list)
    bind: trace.Span | None = None


class Tracing(Instrument):
    """Makes spans of what the pipeline reports.

    Args:
        tracer: of the OpenTelemetry SDK.
        clock: nanoseconds of Unix time.
    """

    times_plugins = True
    times_calls = True

    def __init__(self, tracer: trace.Tracer, clock: Callable[[], int] = time.time_ns) -> None:
        self._tracer, self._clock = tracer, clock
        self._propagator = TraceContextTextMapPropagator()
        self._scheduling: int | None = None
        self._running: _Attempt | None = None
        self._attempts: dict[str, _Attempt] = {}  # by the Pod's path; any thread reads it
        self._served = threading.local()

    # The scheduling thread

    def attempt_began(self, pod: Pod, profile: str, number: int) -> None:
        """Open the span of an attempt, unless the sampler does not want it."""
        self._scheduling = threading.get_ident()
        self._running = None
        parent = (
            self._propagator.extract(pod.annotations) if ANNOTATION in pod.annotations else None
        )
        attributes: Attributes = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
            "profile": profile,
            "attempt": number,
        }
        span = self._tracer.start_span("Schedule", parent or Context(), attributes=attributes)
        if span.is_recording():
            self._running = self._attempts[_path(pod)] = _Attempt(pod.uid, span)

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:  # noqa: ARG002
        """See `Instrument`."""
        attempt = self._running
        if attempt is None:
            return
        end = self._clock()
        start = end - int(seconds * 1e9)
        span = self._tracer.start_span(
            point, _under(attempt.span), attributes={"status": status}, start_time=start
        )
        self._flush(attempt, span, start)
        span.end(end)

    def binding_began(self, pod: Pod) -> None:
        """See `Instrument`."""
        attempt = self._attempts.get(_path(pod))
        if attempt is not None:
            self._flush(attempt, attempt.span)
            self._running = None
            attributes = {"node": pod.node_name}
            attempt.bind = self._tracer.start_span(
                "Bind", _under(attempt.span), attributes=attributes, start_time=self._clock()
            )

    def attempt(self, pod: Pod, profile: str, result: str, seconds: float) -> None:  # noqa: ARG002
        """See `Instrument`."""
        attempt = self._attempts.get(_path(pod))
        if attempt is None or attempt.uid != pod.uid:
            return  # another Pod has the name by now
        del self._attempts[_path(pod)]
        if attempt is self._running:
            self._running = None
        self._flush(attempt, attempt.span)
        if attempt.bind is not None:
            attempt.bind.end()
        attempt.span.set_attribute("result", result)
        if result == "error":
            attempt.span.set_status(trace.StatusCode.ERROR)
        attempt.span.end()

    # Any thread

    def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:  # noqa: ARG002
        """See `Instrument`."""
        if seconds < SLOW_SECONDS:
            return
        end = self._clock()
        call = _Call(plugin, point, end - int(seconds * 1e9), end)
        if threading.get_ident() == self._scheduling:
            if self._running is not None:
                self._running.calls.append(call)
            return
        attempt = self._attempt_of_thread()
        if attempt is not None:
            self._add(attempt.bind or attempt.span, call)

    def worker_serves(self, pod: Pod | None) -> None:
        """See `Instrument`."""
        self._served.path = _path(pod) if pod is not None else ""

    def permit_waited(self, pod: Pod, result: str, seconds: float) -> None:
        """See `Instrument`."""
        self._child(self._attempts.get(_path(pod)), "WaitOnPermit", seconds, {"status": result})

    def called(self, method: str, path: str, code: str, seconds: float) -> None:
        """See `Instrument`."""
        attempt = self._attempt_at(path) or self._attempt_of_thread()
        attributes = {"http.request.method": method, "url.path": path, "code": code}
        self._child(attempt, method, seconds, attributes, trace.SpanKind.CLIENT)

    def _attempt_at(self, path: str) -> _Attempt | None:
        """The attempt of the Pod that is at ``path``, or whose subresource is."""
        return self._attempts.get(path) or self._attempts.get(path.rpartition("/")[0])

    def _attempt_of_thread(self) -> _Attempt | None:
        path = getattr(self._served, "path", "")
        if path:
            return self._attempts.get(path)
        return self._running if threading.get_ident() == self._scheduling else None

    def _child(
        self,
        attempt: _Attempt | None,
        name: str,
        seconds: float,
        attributes: Attributes,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    ) -> None:
        if attempt is not None:
            end = self._clock()
            start = end - int(seconds * 1e9)
            parent = _under(attempt.bind or attempt.span)
            span = self._tracer.start_span(name, parent, kind, attributes, start_time=start)
            span.end(end)

    def _flush(self, attempt: _Attempt, span: trace.Span, since: int = 0) -> None:
        """Put the calls that began after ``since`` below ``span``."""
        for call in attempt.calls:
            self._add(span if call.start >= since else attempt.span, call)
        attempt.calls.clear()

    def _add(self, parent: trace.Span, call: _Call) -> None:
        attributes = {"extension_point": call.point}
        span = self._tracer.start_span(
            call.plugin, _under(parent), attributes=attributes, start_time=call.start
        )
        span.end(call.end)


def _under(span: trace.Span) -> Context:
    return trace.set_span_in_context(span, Context())


def _path(pod: Pod) -> str:
    return POD.path(pod.namespace, pod.name)
