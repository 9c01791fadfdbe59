"""An OTLP collector, for tests of what arrives there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.arrived = threading.Event()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        self.requests.append(request)
        self.arrived.set()
        return trace_service_pb2.ExportTraceServiceResponse()

    def of_trace(self, trace: str) -> list[Any]:
        """The spans of one trace."""
        resources = [resource for r in list(self.requests) for resource in r.resource_spans]
        spans = [span for r in resources for scope in r.scope_spans for span in scope.spans]
        return [span for span in spans if span.trace_id.hex() == trace]


@contextmanager
def serving() -> Iterator[tuple[Collector, str]]:
    """A collector that listens, and its endpoint."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(1))
    register: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    register(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield collector, f"127.0.0.1:{port}"
    server.stop(None)
