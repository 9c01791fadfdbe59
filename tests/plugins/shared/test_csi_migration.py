from __future__ import annotations

import pytest

from bayplan.api.storage import PersistentVolume
from bayplan.plugins.shared.csi_migration import (
    CsiVolume,
    TranslationError,
    inline_to_csi,
    migrated_affinity,
    plugin_of,
    provisioner_driver,
    volume_to_csi,
)
from bayplan.plugins.shared.reach import of_affinity
from bayplan.testing import expressions, make_pod, make_pv, requirement
from bayplan.testing.storage import VolumeBuilder

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
GCE_DISK = {"gcePersistentDisk": {"pdName": "d"}}
UNSPECIFIED = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


def aws(volume_id: str) -> dict[str, dict[str, str]]:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


SOURCES = [
    pytest.param(aws("vol-1"), CsiVolume(EBS, "vol-1"), id="aws-bare"),
    pytest.param(aws("aws://zone/vol-1"), CsiVolume(EBS, "vol-1"), id="aws-with-zone"),
    pytest.param(aws("aws:///vol-1"), CsiVolume(EBS, "vol-1"), id="aws-without-zone"),
    pytest.param(GCE_DISK, CsiVolume(GCE, UNSPECIFIED), id="gce"),
    pytest.param(
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "managed"}},
        CsiVolume("disk.csi.azure.com", "u"),
        id="azure",
    ),
    pytest.param(
        {"cinder": {"volumeID": "v"}}, CsiVolume("cinder.csi.openstack.org", "v"), id="cinder"
    ),
    pytest.param(
        {"portworxVolume": {"volumeID": "v"}}, CsiVolume("pxd.portworx.com", "v"), id="portworx"
    ),
    pytest.param({"vsphereVolume": {"volumePath": "v"}}, None, id="vsphere-is-not-counted"),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_in_tree_volumes_as_csi_volumes(
    source: dict[str, dict[str, str]], expected: CsiVolume | None
) -> None:
    (inline,) = make_pod().volume(**source).obj().spec.volumes
    volume = make_pv().spec(**source).obj()
    assert inline_to_csi(inline) == expected
    assert volume_to_csi(volume) == expected
    assert (plugin_of(inline) is None) == (expected is None)


def test_a_csi_volume_is_itself() -> None:
    assert volume_to_csi(make_pv().csi("d", "h").obj()) == CsiVolume("d", "h")


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        pytest.param({ZONE: "us-a-1"}, "zones/us-a-1", id="zone"),
        pytest.param({BETA_ZONE: "us-a-1", ZONE: "us-b-1"}, "zones/us-a-1", id="beta-zone-first"),
        pytest.param({ZONE: "us-a-1__us-a-2"}, "regions/us-a", id="regional"),
    ],
)
def test_a_gce_volume_is_named_after_its_place(labels: dict[str, str], handle: str) -> None:
    volume = make_pv().spec(**GCE_DISK).labels(labels).obj()
    assert volume_to_csi(volume) == CsiVolume(GCE, f"projects/UNSPECIFIED/{handle}/disks/d")


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        pytest.param(
            "a__b",
            "failed to get region from zones: zone in unexpected format, expected: "
            "{locale}-{region}-{zone}, got: a",
            id="format",
        ),
        pytest.param(
            "us-b-1__us-a-1",
            "failed to get region from zones: multiple or no regions gotten from zones, "
            "got: map[us-a:{} us-b:{}]",
            id="two-regions",
        ),
    ],
)
def test_zones_of_a_regional_gce_volume_must_be_of_one_region(zones: str, message: str) -> None:
    volume = make_pv().spec(**GCE_DISK).label(ZONE, zones).obj()
    with pytest.raises(TranslationError) as error:
        volume_to_csi(volume)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("kubernetes.io/aws-ebs", EBS),
        ("kubernetes.io/azure-file", None),
        ("kubernetes.io/vsphere-volume", None),
        ("csi.example.com", "csi.example.com"),
        ("", ""),
    ],
)
def test_provisioners(provisioner: str, driver: str | None) -> None:
    assert provisioner_driver(provisioner) == driver


EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def terms(volume: PersistentVolume) -> list[list[tuple[str, tuple[str, ...]]]]:
    return [[(r.key, r.values) for r in term] for term in of_affinity(migrated_affinity(volume))]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(make_pv(), [[]], id="no-topology"),
        pytest.param(make_pv().on(ZONE, "a"), [[(EBS_ZONE, ("a",))]], id="zone-affinity"),
        pytest.param(
            make_pv().on(ZONE, "a").label(ZONE, "b"), [[(EBS_ZONE, ("a",))]], id="affinity-first"
        ),
        pytest.param(
            make_pv().label(ZONE, "b__a"), [[(EBS_ZONE, ("a", "b"))]], id="zone-labels-are-sorted"
        ),
        pytest.param(make_pv().label(ZONE, " "), [[]], id="empty-zone-label"),
        pytest.param(
            make_pv().on("host", "h").label(BETA_ZONE, "a"),
            [[("host", ("h",)), (EBS_ZONE, ("a",))]],
            id="label-added-to-other-affinity",
        ),
        pytest.param(
            make_pv().terms(
                expressions(requirement(BETA_ZONE, "In", "a"), requirement(BETA_REGION, "In", "r")),
                expressions(requirement("host", "In", "h")),
            ),
            [[(EBS_ZONE, ("a",)), (REGION, ("r",))], [("host", ("h",))]],
            id="beta-labels-of-every-term",
        ),
        pytest.param(make_pv().label(BETA_ZONE, "a"), [[(EBS_ZONE, ("a",))]], id="beta-zone-label"),
    ],
)
def test_topology_in_the_words_of_the_driver(
    volume: VolumeBuilder, expected: list[list[tuple[str, tuple[str, ...]]]]
) -> None:
    assert terms(volume.spec(**aws("vol-1")).obj()) == expected


def test_topology_of_drivers_without_a_key_of_their_own_stays() -> None:
    volume = make_pv().on(ZONE, "a").spec(portworxVolume={"volumeID": "v"}).obj()
    assert terms(volume) == [[(ZONE, ("a",))]]
