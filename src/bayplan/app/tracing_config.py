"""The file of ``--tracing-config-file``: Kubernetes' TracingConfiguration, and a tracer from it.

``k8s.io/component-base/tracing/api/v1``: where the spans go, and how many attempts are sampled.
What it leaves open (TLS, headers, the service's name) comes from OpenTelemetry's variables, OTEL_*.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic
import yaml
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from bayplan import __version__
from bayplan.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 2.0
"""How long the last spans may take to be sent when the process ends."""
MILLION = 1_000_000


class TracingError(Exception):
    """The file cannot be used, or the SDK is not installed; the text says why."""


class TracingConfiguration(pydantic.BaseModel):
    """Attributes as in the file.

    Attributes:
        endpoint: host:port of an OTLP collector (gRPC, no TLS); OTEL_EXPORTER_OTLP_ENDPOINT, or
            localhost:4317, where it is missing.
        sampling_rate_per_million: attempts that begin a trace; an attempt whose Pod names a trace
            follows that one's choice.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    api_version: str = ""
    kind: str = Field(default="TracingConfiguration", pattern="^TracingConfiguration$")
    endpoint: str | None = None
    sampling_rate_per_million: int = Field(default=0, ge=0, le=MILLION)


def load(path: Path) -> TracingConfiguration:
    """Read the file.

    Raises:
        TracingError: it cannot be read, or a field is wrong.
    """
    try:
        return TracingConfiguration.model_validate(yaml.safe_load(path.read_text()) or {})
    except pydantic.ValidationError as error:
        faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise TracingError(f"{path}: {'; '.join(faults)}") from None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise TracingError(f"{path}: {error}") from None


class Traces:
    """Sends spans of what its ``instrument`` receives to a collector, on a thread of the SDK.

    Raises:
        TracingError: the SDK is not installed.
    """

    def __init__(self, config: TracingConfiguration) -> None:
        self._provider = _provider(config)
        self.instrument = Tracing(self._provider.get_tracer("bayplan", __version__))

    def close(self) -> None:
        """Send what is left, within `FLUSH_SECONDS`."""
        # The exporter's own retries would keep the process for longer.
        ends = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ends.start()
        ends.join(FLUSH_SECONDS)


def _provider(config: TracingConfiguration) -> TracerProvider:
    # Imported here: it takes most of a second, for those who trace.
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415
    except ImportError as error:
        text = f"tracing needs the extra: pip install 'bayplan[tracing]' ({error})"
        raise TracingError(text) from None
    resource = Resource.create(
        {
            "service.name": "bayplan",
            "service.version": __version__,
            "service.instance.id": socket.gethostname(),
        }
    )
    sampler = ParentBasedTraceIdRatio(config.sampling_rate_per_million / MILLION)
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
    insecure = True if config.endpoint else None
    exporter = OTLPSpanExporter(endpoint=config.endpoint, insecure=insecure)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
