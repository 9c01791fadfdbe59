"""The values of a configuration outside of plugins, validated as in kube-scheduler.

Answers to `pkg/scheduler/apis/config/validation/validation.go` and to what `scheduler.New` refuses
of the extenders.
"""

from __future__ import annotations

import ssl
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.config import names
from bayplan.config.errors import FieldError
from bayplan.config.validation_args import in_range
from bayplan.support.memory_file import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bayplan.config.types import (
        Extender,
        ExtenderTLSConfig,
        KubeSchedulerConfiguration,
        KubeSchedulerProfile,
        LeaderElectionConfiguration,
        PluginSet,
    )


def validate(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    """Everything that is wrong with `config` but for the plugins and their arguments."""
    yield from _numbers(config)
    yield from _leader_election(config.leader_election)
    yield from _profiles(config.profiles)
    yield from _extenders(config.extenders)


def _numbers(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    if config.client_connection.burst < 0:
        yield FieldError("clientConnection.burst", "must not be negative")
    if config.parallelism <= 0:
        yield FieldError("parallelism", "must be greater than 0")
    yield from in_range("percentageOfNodesToScore", config.percentage_of_nodes_to_score, 0, 100)
    if config.pod_initial_backoff_seconds <= 0:
        yield FieldError("podInitialBackoffSeconds", "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        yield FieldError("podMaxBackoffSeconds", "must not be less than podInitialBackoffSeconds")


def _leader_election(election: LeaderElectionConfiguration) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        if getattr(election, name) <= 0:
            alias = type(election).model_fields[name].alias
            yield FieldError(f"leaderElection.{alias}", "must be greater than 0")
    if election.lease_duration <= election.renew_deadline:
        yield FieldError("leaderElection.leaseDuration", "must be greater than renewDeadline")
    if election.resource_lock != "leases":
        yield FieldError(
            "leaderElection.resourceLock", f'must be "leases", not "{election.resource_lock}"'
        )


def _profiles(profiles: Sequence[KubeSchedulerProfile]) -> Iterator[FieldError]:
    first_of: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name
        first = first_of.setdefault(name, i)
        if not name:
            yield FieldError(f"{path}.schedulerName", "required")
        elif first != i:
            yield FieldError(
                f"{path}.schedulerName", f'"{name}" is the name of profiles[{first}] already'
            )
        percentage = profile.percentage_of_nodes_to_score
        if percentage is not None:
            yield from in_range(f"{path}.percentageOfNodesToScore", percentage, 0, 100)
        if _shape(profile.plugins.queue_sort) != _shape(profiles[0].plugins.queue_sort):
            yield FieldError(f"{path}.plugins.queueSort", "must be the same in all profiles")


def _shape(plugins: PluginSet) -> tuple[list[tuple[str, int]], list[str]]:
    return [(p.name, p.weight) for p in plugins.enabled], [p.name for p in plugins.disabled]


def _extenders(extenders: Sequence[Extender]) -> Iterator[FieldError]:
    managed: Counter[str] = Counter()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield FieldError(f"{path}.weight", "must be positive when prioritizeVerb is set")
        for j, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{j}].name"
            for problem in names.extended_resource(resource.name):
                yield FieldError(where, problem)
            managed[resource.name] += 1
            if managed[resource.name] > 1:
                yield FieldError(where, f'"{resource.name}" is managed by an extender already')
        yield from _tls(extender, f"{path}.tlsConfig")
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    for i in binders[1:]:
        yield FieldError(f"extenders[{i}].bindVerb", f"extenders[{binders[0]}] binds already")


def _tls(extender: Extender, path: str) -> Iterator[FieldError]:
    tls = extender.tls_config
    if tls is None:
        return
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield FieldError(f"{path}.insecure", "must not be set together with a CA")
        return
    try:
        _load_ca(tls)
    except (OSError, ValueError) as error:
        yield FieldError(f"{path}.{'caData' if tls.ca_data else 'caFile'}", _reason(error))
    try:
        _load_key_pair(tls)
    except (OSError, ValueError) as error:
        yield FieldError(f"{path}.{'certData' if tls.cert_data else 'certFile'}", _reason(error))


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return "holds no usable PEM data"


def _load_ca(tls: ExtenderTLSConfig) -> None:
    pem = tls.ca_data or (Path(tls.ca_file).read_bytes() if tls.ca_file else b"")
    if pem:
        # Bundles have comments between the certificates, in any language.
        text = pem.decode("ascii", "ignore")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


def _load_key_pair(tls: ExtenderTLSConfig) -> None:
    """Load certificate and key where both are given; one without the other goes unused."""
    if not (tls.cert_data or tls.cert_file) or not (tls.key_data or tls.key_file):
        return
    cert = tls.cert_data or Path(tls.cert_file).read_bytes()
    key = tls.key_data or Path(tls.key_file).read_bytes()
    # The ssl module takes certificates from files only.
    with MemoryFile(cert + b"\n" + key) as both:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(both.path, password=lambda: b"")
