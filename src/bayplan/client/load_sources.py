"""What sources of measured load say: metrics.k8s.io, Prometheus, and load-watcher of trimaran.

Sources of prices are Prometheus alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from bayplan.api.lists import ObjectList
from bayplan.api.node import NodeMetrics
from bayplan.cache.node_load import NO_NUMBER, RESOURCES, Readings, of_node_metrics
from bayplan.client.connection import Connection
from bayplan.client.errors import ServerError
from bayplan.client.http import Http
from bayplan.config.args import LoadQueries, LoadSource, PriceSource, SourceType

NODE_METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"
WATCHER = "/watcher"

T = TypeVar("T")


@dataclass
class _Sample:
    mean: dict[str, float] = field(default_factory=dict)
    deviation: dict[str, float] = field(default_factory=dict)
    time: float = float("nan")


class LoadReader:
    """Asks one source, again and again.

    Args:
        source: what is asked.
        http: calls to the API server, for metrics.k8s.io.
    """

    def __init__(self, source: LoadSource, http: Http) -> None:
        self._source = source
        self._http = http
        if source.address:
            self._http = Http(Connection.to(source.address, source.token, verify=source.verify))

    def read(self, timeout: float, now: float) -> Readings:
        """What the source says at ``now``; all requests together take at most about ``timeout``.

        Raises:
            bayplan.client.errors.ApiError: the source does not answer, or with an error.
        """
        match self._source.type:
            case SourceType.METRICS_API:
                listed = _decoded(self._http.get(NODE_METRICS, timeout), ObjectList[NodeMetrics])
                return of_node_metrics(listed.items or ())
            case SourceType.LOAD_WATCHER:
                return _readings(_of_watcher(self._http, timeout))
        queries = self._source.queries or LoadQueries()
        return _readings(self._of_prometheus(queries, timeout, now))

    def _of_prometheus(
        self, queries: LoadQueries, timeout: float, now: float
    ) -> Mapping[str, _Sample]:
        asked = [
            (resource, what, query)
            for resource in RESOURCES
            for what in ("mean", "deviation")
            if (query := getattr(getattr(queries, resource), what))
        ]
        samples: dict[str, _Sample] = {}
        for resource, what, query in asked:
            about = f"the {what} of {resource}"
            for series in _vector(self._http, query, timeout / len(asked), about):
                name = series.metric.get(self._source.node_label)
                if name is not None:
                    sample = samples.setdefault(name, _Sample())
                    getattr(sample, what)[resource] = _number(series.value[1])
                    sample.time = now
        return samples


class PriceReader:
    """Asks one source of prices, again and again."""

    def __init__(self, source: PriceSource) -> None:
        self._source = source
        self._http = Http(Connection.to(source.address, source.token, verify=source.verify))

    def read(self, timeout: float) -> dict[str, float]:
        """The hourly prices by node, -1 for what is no number.

        Raises:
            bayplan.client.errors.ApiError: the source does not answer, or with an error.
        """
        return {
            name: _number(series.value[1])
            for series in _vector(self._http, self._source.query, timeout, "prices")
            if (name := series.metric.get(self._source.node_label)) is not None
        }


def _vector(http: Http, query: str, timeout: float, about: str) -> list[_Series]:
    answer = _decoded(http.get(f"/api/v1/query?query={quote(query)}", timeout), _QueryAnswer)
    if answer.status != "success" or answer.data.result_type != "vector":
        kind = answer.error or f"a {answer.data.result_type or 'thing'}, not a vector"
        raise ServerError(f"PromQL for {about}: {kind}")
    return answer.data.result or []


def _of_watcher(http: Http, timeout: float) -> Mapping[str, _Sample]:
    answer = _decoded(http.get(WATCHER, timeout), _Watcher)
    samples = {}
    for name, node in (answer.data.node_metrics_map or {}).items():
        sample = samples[name] = _Sample(time=float(answer.window.end))
        means: dict[str, dict[str, float]] = {}
        for metric in node.metrics or ():
            resource, share = metric.type.lower(), _number(metric.value) / 100
            if resource not in RESOURCES:
                continue
            if metric.operator == "STD":
                sample.deviation[resource] = share
            elif metric.operator in ("AVG", "Latest", ""):
                means.setdefault(resource, {})[metric.operator] = share
        for resource, by_operator in means.items():
            sample.mean[resource] = by_operator.get("AVG", next(iter(by_operator.values())))
    return samples


def _readings(samples: Mapping[str, _Sample]) -> Readings:
    each, nothing = samples.values(), float("nan")
    return Readings(
        list(samples),
        {r: np.array([s.mean.get(r, nothing) for s in each], np.float64) for r in RESOURCES},
        {r: np.array([s.deviation.get(r, nothing) for s in each], np.float64) for r in RESOURCES},
        np.array([sample.time for sample in each], np.float64),
    )


def _number(value: str | float | int | None) -> float:
    try:
        number = NO_NUMBER if value is None else float(value)
    except ValueError:
        return NO_NUMBER
    return NO_NUMBER if number != number else number  # noqa: PLR0124 - NaN differs from itself


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise ServerError(f"the answer cannot be read: {error}") from None


# What is read of the answers


class _Series(msgspec.Struct):
    value: tuple[float, str]
    metric: dict[str, str] = {}


class _QueryData(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] | None = None


class _QueryAnswer(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _QueryData = msgspec.field(default_factory=_QueryData)


class _WatcherMetric(msgspec.Struct):
    type: str = ""
    operator: str = ""
    value: float | str | None = None


class _WatcherNode(msgspec.Struct):
    metrics: list[_WatcherMetric] | None = None


class _WatcherData(msgspec.Struct):
    node_metrics_map: dict[str, _WatcherNode] | None = msgspec.field(
        default=None, name="NodeMetricsMap"
    )


class _WatcherWindow(msgspec.Struct):
    end: float = 0


class _Watcher(msgspec.Struct):
    window: _WatcherWindow = msgspec.field(default_factory=_WatcherWindow)
    data: _WatcherData = msgspec.field(default_factory=_WatcherData)
