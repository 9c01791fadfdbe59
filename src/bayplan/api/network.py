"""AppGroup and NetworkTopology of diktyo.x-k8s.io: who depends on whom, and what distances cost."""

from __future__ import annotations

from bayplan.api.meta import Object, Wire


class WorkloadInfo(Wire, frozen=True):
    """A workload of an AppGroup; ``selector`` is the value of a label of its Pods."""

    kind: str = ""
    name: str = ""
    selector: str = ""


class Dependency(Wire, frozen=True):
    """A workload that another one talks to, and the highest cost of the network between both."""

    workload: WorkloadInfo = WorkloadInfo()
    max_network_cost: int = 0


class AppGroupWorkload(Wire, frozen=True):
    """A workload and its dependencies."""

    workload: WorkloadInfo = WorkloadInfo()
    dependencies: tuple[Dependency, ...] = ()


class AppGroupSpec(Wire, frozen=True):
    """What users say."""

    workloads: tuple[AppGroupWorkload, ...] = ()


class WorkloadOrder(Wire, frozen=True):
    """The place of a workload when Pods are sorted."""

    workload: WorkloadInfo = WorkloadInfo()
    index: int = 0


class AppGroupStatus(Wire, frozen=True):
    """What the AppGroup's controller says."""

    topology_order: tuple[WorkloadOrder, ...] = ()


class AppGroup(Object, frozen=True):
    """Workloads of one application."""

    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


class CostInfo(Wire, frozen=True):
    """The cost of the network to a region or zone."""

    destination: str = ""
    network_cost: int = 0


class OriginInfo(Wire, frozen=True):
    """The costs from a region or zone."""

    origin: str = ""
    cost_list: tuple[CostInfo, ...] = ()


class TopologyInfo(Wire, frozen=True):
    """The costs between regions, or between zones."""

    topology_key: str = ""
    origin_list: tuple[OriginInfo, ...] = ()


class WeightInfo(Wire, frozen=True):
    """Costs that were found in one way, such as UserDefined."""

    name: str = ""
    topology_list: tuple[TopologyInfo, ...] = ()


class NetworkTopologySpec(Wire, frozen=True):
    """What users say."""

    weights: tuple[WeightInfo, ...] = ()


class NetworkTopology(Object, frozen=True):
    """The costs of the network of a cluster."""

    spec: NetworkTopologySpec = NetworkTopologySpec()
