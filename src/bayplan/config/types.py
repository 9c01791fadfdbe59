"""The models of kubescheduler.config.k8s.io/v1, with kube-scheduler's defaults.

Fields are named as in the file, in snake_case. A field that is null is a field that is not there.
The only rule applied here is the shape; `validation` judges the values. Durations are float
seconds, lists are tuples.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel, to_snake

from bayplan.config.scalars import Bytes, Duration, Float32, Int32, Int64, Items, zero_means

GROUP_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"


class Wire(BaseModel):
    """Base of everything that is read from a configuration file."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)

    # Fields of Go types that do not take null for "not there".
    keeps_null: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if data is None:
            return {}
        if not isinstance(data, dict):
            return data
        nullable = {field.alias for field in cls.model_fields.values()} - cls.keeps_null
        return {k: v for k, v in data.items() if v is not None or k not in nullable}


class LeaderElectionConfiguration(Wire):
    """Leader election by a Lease; the durations are in seconds."""

    keeps_null = frozenset({"leaseDuration", "renewDeadline", "retryPeriod"})

    leader_elect: bool = True
    lease_duration: Annotated[Duration, zero_means(15.0)] = 15.0
    renew_deadline: Annotated[Duration, zero_means(10.0)] = 10.0
    retry_period: Annotated[Duration, zero_means(2.0)] = 2.0
    resource_lock: Annotated[str, zero_means("leases")] = "leases"
    resource_name: Annotated[str, zero_means("kube-scheduler")] = "kube-scheduler"
    resource_namespace: Annotated[str, zero_means("kube-system")] = "kube-system"


class ClientConnectionConfiguration(Wire):
    """How to reach the API server. `qps` below zero means no limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Annotated[str, zero_means("application/vnd.kubernetes.protobuf")] = (
        "application/vnd.kubernetes.protobuf"
    )
    qps: Annotated[Float32, zero_means(50.0)] = 50.0
    burst: Annotated[Int32, zero_means(100)] = 100


class PluginRef(Wire):
    """A plugin named in an enabled or disabled list. Weight 0 is read as 1 where weights count."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Wire):
    """What a profile changes at one extension point; `*` in `disabled` stands for every default."""

    enabled: Items[PluginRef] = ()
    disabled: Items[PluginRef] = ()


class Plugins(Wire):
    """The changes at every extension point, and at all of them through `multi_point`."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The changes at `point`, which is one of `points.EXTENSION_POINTS` or "multiPoint"."""
        changes: PluginSet = getattr(self, to_snake(point))
        return changes


class PluginConfig(Wire):
    """The arguments of one plugin, not decoded yet: only the plugin knows their type."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(Wire):
    """One scheduler name and the plugins for this name."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: Items[PluginConfig] = ()


class ExtenderManagedResource(Wire):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Wire):
    """TLS towards an extender; the data fields win over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Bytes = b""
    key_data: Bytes = b""
    ca_data: Bytes = b""


class Extender(Wire):
    """A webhook that takes part in filtering, scoring, preemption or binding."""

    keeps_null = frozenset({"httpTimeout"})

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Annotated[Duration, zero_means(5.0)] = 5.0
    node_cache_capable: bool = False
    managed_resources: Items[ExtenderManagedResource] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Wire):
    """A whole file, without its apiVersion and kind.

    `percentage_of_nodes_to_score` 0 leaves the number of nodes to the scheduler; bayplan then looks
    at all of them.
    """

    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = Field(default=None, validate_default=True)
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: Items[KubeSchedulerProfile] = Field(default=(), validate_default=True)
    extenders: Items[Extender] = ()
    delay_cache_until_active: bool = False

    @field_validator("enable_contention_profiling")
    @classmethod
    def _as_profiling(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        return info.data.get("enable_profiling") if value is None else value

    @field_validator("profiles")
    @classmethod
    def _name_a_single_profile(
        cls, profiles: tuple[KubeSchedulerProfile, ...]
    ) -> tuple[KubeSchedulerProfile, ...]:
        first, *others = profiles or (KubeSchedulerProfile(),)
        if others or "scheduler_name" in first.model_fields_set:
            return profiles
        return (first.model_copy(update={"scheduler_name": DEFAULT_SCHEDULER_NAME}),)
