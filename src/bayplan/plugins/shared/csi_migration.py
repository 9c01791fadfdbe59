"""In-tree volumes, translated to CSI volumes.

CSI drivers serve the objects of the former in-tree plugins. To count such volumes or to find the
nodes that can reach them, the CSI driver's name, volume handle and topology key are needed.
Source: the specification of each plugin in ``k8s.io/csi-translation-lib``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from bayplan.api.meta import LabelSelectorRequirement
from bayplan.api.pod_spec import NodeSelector, NodeSelectorTerm, Volume
from bayplan.api.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: which plugins its kubelet has handed over, separated by commas."""

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"
_UNSPECIFIED = "UNSPECIFIED"


class TranslationError(ValueError):
    """An in-tree volume without an equivalent in its CSI driver."""


class CsiVolume(NamedTuple):
    """What identifies a volume to the CSI driver."""

    driver: str
    handle: str


class _Plugin(NamedTuple):
    name: str
    driver: str
    source: str
    """Field of Volume and of PersistentVolumeSpec."""
    handle: Callable[[Volume | PersistentVolumeSpec], str]
    topology_key: str = ""
    """The driver's name of the zone label; empty: topology is not translated."""


def _aws_handle(source: Volume | PersistentVolumeSpec) -> str:
    assert source.aws_elastic_block_store is not None
    volume_id = source.aws_elastic_block_store.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = urlsplit(volume_id).path.strip("/")
    if re.fullmatch(r"vol-[^/]*", handle):
        return handle
    raise TranslationError(
        "failed to translate Kubernetes ID to EBS Volume ID "
        f"Invalid format for AWS volume ({volume_id})"
    )


def _gce_handle(source: Volume | PersistentVolumeSpec) -> str:
    assert source.gce_persistent_disk is not None
    return _gce_disk("zones", _UNSPECIFIED, source.gce_persistent_disk.pd_name)


def _gce_disk(scope: str, place: str, name: str) -> str:
    return f"projects/{_UNSPECIFIED}/{scope}/{place}/disks/{name}"


def _azure_handle(source: Volume | PersistentVolumeSpec) -> str:
    disk = source.azure_disk
    assert disk is not None
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _cinder_handle(source: Volume | PersistentVolumeSpec) -> str:
    assert source.cinder is not None
    return source.cinder.volume_id


def _portworx_handle(source: Volume | PersistentVolumeSpec) -> str:
    assert source.portworx_volume is not None
    return source.portworx_volume.volume_id


_PLUGINS = (
    _Plugin(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        _aws_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    _Plugin(
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        "gce_persistent_disk",
        _gce_handle,
        "topology.gke.io/zone",
    ),
    _Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "azure_disk", _azure_handle),
    _Plugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        _cinder_handle,
        "topology.cinder.csi.openstack.org/zone",
    ),
    _Plugin(
        "kubernetes.io/portworx-volume", "pxd.portworx.com", "portworx_volume", _portworx_handle
    ),
)
"""The plugins whose migration the scheduler counts on. Those of vSphere and Azure File have moved,
too, but kube-scheduler neither counts nor translates their volumes."""

_BY_NAME = {plugin.name: plugin for plugin in _PLUGINS}
_NOT_COUNTED = frozenset({"kubernetes.io/vsphere-volume", "kubernetes.io/azure-file"})


def plugin_of(source: Volume | PersistentVolumeSpec) -> str | None:
    """Name of the in-tree plugin of a volume whose migration counts, or None."""
    plugin = _find(source)
    return plugin.name if plugin else None


def _find(source: Volume | PersistentVolumeSpec) -> _Plugin | None:
    return next((p for p in _PLUGINS if getattr(source, p.source) is not None), None)


def provisioner_driver(provisioner: str) -> str | None:
    """The CSI driver that provisions for ``provisioner``; None if the volumes do not count."""
    if provisioner in _NOT_COUNTED:
        return None
    plugin = _BY_NAME.get(provisioner)
    return plugin.driver if plugin else provisioner


def inline_to_csi(volume: Volume) -> CsiVolume | None:
    """The CSI volume behind an inline in-tree volume; None when there is no migration for it.

    Raises:
        TranslationError: the driver has no such volume.
    """
    plugin = _find(volume)
    return CsiVolume(plugin.driver, plugin.handle(volume)) if plugin else None


def volume_to_csi(volume: PersistentVolume) -> CsiVolume | None:
    """The CSI volume behind ``volume``, a CSI one or migrated; None when there is none.

    Raises:
        TranslationError: the driver has no such volume.
    """
    spec = volume.spec
    if spec.csi is not None:
        return CsiVolume(spec.csi.driver, spec.csi.volume_handle)
    plugin = _find(spec)
    if plugin is None:
        return None
    if spec.gce_persistent_disk is not None:
        return CsiVolume(plugin.driver, _gce_volume_handle(volume))
    return CsiVolume(plugin.driver, plugin.handle(spec))


def _gce_volume_handle(volume: PersistentVolume) -> str:
    assert volume.spec.gce_persistent_disk is not None
    name = volume.spec.gce_persistent_disk.pd_name
    label = volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, "")
    zones = label.split(ZONE_DELIMITER)
    if len(zones) > 1:
        return _gce_disk("regions", _gce_region(zones), name)
    return _gce_disk("zones", zones[0] or _UNSPECIFIED, name)


def _gce_region(zones: list[str]) -> str:
    trouble = "failed to get region from zones: "
    for zone in zones:
        if len(zone.split("-")) != 3:
            raise TranslationError(
                f"{trouble}zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    if len(regions) == 1:
        return regions[0]
    shown = " ".join(f"{region}:{{}}" for region in regions)
    raise TranslationError(f"{trouble}multiple or no regions gotten from zones, got: map[{shown}]")


def migrated_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Node affinity of an in-tree ``volume`` in the words of its CSI driver.

    Zone labels become the driver's topology key; without any, the volume's own zone label does.

    Raises:
        TranslationError: the driver has no such volume.
    """
    volume_to_csi(volume)
    plugin = _find(volume.spec)
    affinity = volume.spec.node_affinity
    if plugin is None or not plugin.topology_key:
        return affinity
    zone_key, region_key = _topology_keys(volume)
    if _values(affinity, zone_key):
        affinity = _renamed(affinity, zone_key, plugin.topology_key)
    elif zone_key in volume.labels:
        zones = {zone.strip() for zone in volume.labels[zone_key].split(ZONE_DELIMITER)} - {""}
        affinity = _with_zones(affinity, plugin.topology_key, tuple(sorted(zones)))
    if region_key == BETA_REGION:
        affinity = _renamed(affinity, BETA_REGION, REGION)
    return affinity


def _topology_keys(volume: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels that ``volume`` is written with: beta ones or not."""
    keys = {r.key for term in _terms(volume.spec.node_affinity) for r in term.match_expressions}
    for labels in (keys, volume.labels):
        if ZONE in labels:
            return ZONE, REGION
        if BETA_ZONE in labels:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    required = affinity.required if affinity else None
    return required.node_selector_terms if required else ()


def _values(affinity: VolumeNodeAffinity | None, key: str) -> list[str]:
    return [
        value
        for term in _terms(affinity)
        for r in term.match_expressions
        if r.key == key
        for value in r.values
    ]


def _renamed(affinity: VolumeNodeAffinity | None, old: str, new: str) -> VolumeNodeAffinity | None:
    def rename(r: LabelSelectorRequirement) -> LabelSelectorRequirement:
        return msgspec.structs.replace(r, key=new) if r.key == old else r

    if not _terms(affinity):
        return affinity
    return _affinity(
        msgspec.structs.replace(term, match_expressions=tuple(map(rename, term.match_expressions)))
        for term in _terms(affinity)
    )


def _with_zones(
    affinity: VolumeNodeAffinity | None, key: str, zones: tuple[str, ...]
) -> VolumeNodeAffinity | None:
    if not zones:
        return affinity
    zoned = LabelSelectorRequirement(key, "In", zones)
    return _affinity(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, zoned))
        for term in _terms(affinity) or (NodeSelectorTerm(),)
    )


def _affinity(terms: Iterable[NodeSelectorTerm]) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(NodeSelector(tuple(terms)))
