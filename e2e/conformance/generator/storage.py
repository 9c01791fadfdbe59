"""Storage: classes, drivers, volumes and claims in every state that the plugins tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import HOSTNAME, IMAGES, ZONE

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

CSI = "csi.example.com"
CAPPED = "capped.example.com"
EBS = "ebs.csi.aws.com"
WAIT, NOW = "WaitForFirstConsumer", "Immediate"
CLASSES: dict[str, tuple[str, str]] = {
    "late": (CSI, WAIT),
    "late-zonal": (CSI, WAIT),
    "late-static": ("kubernetes.io/no-provisioner", WAIT),
    "late-capped": (CAPPED, WAIT),
    "late-capped-too": (CAPPED, WAIT),
    "late-ebs": ("kubernetes.io/aws-ebs", WAIT),
    "early": (CSI, NOW),
}
CAPPED_CLASSES = ("late-capped", "late-capped-too")
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


class StorageMaker:
    """Makes storage once a cluster, then claims and volumes for one Pod after the other."""

    def __init__(self, dice: Dice, world: World) -> None:
        self.dice = dice
        self.world = world
        self._count = 0
        self.shared: dict[str, list[str]] = {name: [] for name in world.namespaces}
        self.exclusive: dict[str, list[str]] = {name: [] for name in world.namespaces}

    def add_infrastructure(self) -> None:
        """Classes, drivers, per-node limits, capacities, and volumes that nobody has claimed."""
        for name, (provisioner, mode) in CLASSES.items():
            self._add_class(name, provisioner, mode)
        self._add_drivers()
        for node in self.world.nodes:
            if self.dice.has("csiNodes"):
                self._add_csi_node(node)
        for class_name in CAPPED_CLASSES:
            for zone in self.world.zones:
                if self.dice.has("capacities") or self.dice.chance(0.5):
                    self._add_capacity(class_name, zone)
        for _ in range(6):
            if self.dice.has("freeVolumes"):
                self._add_volume("late-static", bound_to=None)

    def _add_drivers(self) -> None:
        # One at most: which of several missing drivers is named, kube-scheduler leaves to chance.
        required = self.dice.choice((CSI, CAPPED, EBS, None, None, None))
        for driver in (CSI, CAPPED, EBS):
            if self.dice.chance(0.8):
                spec = {"storageCapacity": driver == CAPPED, "attachRequired": True}
                if driver == required or self.dice.chance(0.2):
                    spec["preventPodSchedulingIfMissing"] = driver == required
                self.world.add(
                    "storage.k8s.io/v1", "CSIDriver", metadata={"name": driver}, spec=spec
                )

    def _add_class(self, name: str, provisioner: str, mode: str) -> None:
        body: dict[str, Any] = {"provisioner": provisioner, "volumeBindingMode": mode}
        if name == "late-zonal" and self.world.zones:
            expression = {"key": ZONE, "values": self.dice.some(self.world.zones, 1, 2)}
            body["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
        metadata: dict[str, Any] = {"name": name}
        if name in ("late", "early") and self.dice.has("defaultClass"):
            metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
            metadata["creationTimestamp"] = self.dice.moment()
        self.world.add("storage.k8s.io/v1", "StorageClass", metadata=metadata, **body)

    def _add_csi_node(self, node: str) -> None:
        dice, drivers = self.dice, []
        for driver in dice.some((CSI, CAPPED, EBS)):
            entry: dict[str, Any] = {"name": driver, "nodeID": node, "topologyKeys": [ZONE]}
            if dice.chance(0.7):
                entry["allocatable"] = {"count": dice.choice((0, 1, 2, 20))}
            drivers.append(entry)
        metadata: dict[str, Any] = {"name": node}
        if dice.chance(0.6):
            metadata["annotations"] = {MIGRATED: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
        self.world.add("storage.k8s.io/v1", "CSINode", metadata=metadata, spec={"drivers": drivers})

    def _add_capacity(self, class_name: str, zone: str) -> None:
        dice = self.dice
        body: dict[str, Any] = {"storageClassName": class_name}
        if dice.chance(0.9):
            body["nodeTopology"] = {"matchLabels": {ZONE: zone}}
        if dice.chance(0.8):
            body["capacity"] = dice.choice(("0", "5Gi", "32Gi", "50Gi", "70e9", "1Ti"))
        # kube-scheduler panics where there is a largest size and no capacity.
        if "capacity" in body and dice.chance(0.3):
            body["maximumVolumeSize"] = dice.choice(("1Gi", "20Gi"))
        metadata = {"name": f"{class_name}-{zone}", "namespace": "default"}
        self.world.add("storage.k8s.io/v1", "CSIStorageCapacity", metadata=metadata, **body)

    def volumes(self, pod: str, uid: str, namespace: str, bound: bool) -> list[dict[str, Any]]:
        """The volumes of one Pod."""
        dice = self.dice
        made: list[dict[str, Any]] = []
        while len(made) < 3 and dice.has("claims"):
            claim = self._claim(namespace, bound)
            made.append({"persistentVolumeClaim": {"claimName": claim}})
        if dice.has("ephemeralVolumes"):
            made.append(self._ephemeral(pod, uid, namespace, bound, len(made)))
        if dice.has("legacyDisks"):
            made.append(self._legacy())
        if dice.has("otherVolumes"):
            others: tuple[dict[str, Any], ...] = (
                {"emptyDir": {}},
                {"configMap": {"name": "settings"}},
                {"image": {"reference": dice.choice(IMAGES)}},
                {"csi": {"driver": CSI}},
            )
            made.append(dice.choice(others))
        while len(made) < 5 and dice.has("imageVolumes"):
            made.append({"image": {"reference": dice.choice(IMAGES)}})
        return [{"name": f"volume-{number}", **volume} for number, volume in enumerate(made)]

    def to_provision(self, namespace: str) -> list[dict[str, Any]]:
        """One to three volumes that are to be made by a driver that publishes its free space."""
        made = []
        for number in range(self.dice.randint(1, 3)):
            self._count += 1
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": self.dice.choice(("1Gi", "8Gi", "30e9"))}},
                "storageClassName": self.dice.choice(CAPPED_CLASSES),
            }
            metadata = {"name": f"claim-{self._count:03}", "namespace": namespace}
            self.world.add(
                "v1",
                "PersistentVolumeClaim",
                metadata=metadata,
                spec=spec,
                status={"phase": "Pending"},
            )
            claim = {"claimName": metadata["name"]}
            made.append({"name": f"volume-{number}", "persistentVolumeClaim": claim})
        return made

    def _legacy(self) -> dict[str, Any]:
        """A disk named in the Pod itself; sharing one is what VolumeRestrictions looks at."""
        dice = self.dice
        disk, read_only = f"disk-{dice.randint(1, 3)}", dice.chance(0.4)
        ebs = without_empty({"volumeID": f"vol-{disk}", "readOnly": read_only or None})
        gce = without_empty({"pdName": disk, "readOnly": read_only or None})
        iscsi = {
            "targetPortal": "10.0.0.9:3260",
            "iqn": f"iqn.2001-04.com.example:{disk}",
            "lun": 0,
        }
        rbd = {"monitors": ["10.0.0.7:6789", "10.0.0.8:6789"], "image": disk, "pool": "kube"}
        return dice.choice(
            (
                {"awsElasticBlockStore": ebs},
                {"gcePersistentDisk": gce},
                {"iscsi": without_empty({**iscsi, "readOnly": read_only or None})},
                {"rbd": without_empty({**rbd, "readOnly": read_only or None})},
            )
        )

    def _ephemeral(
        self, pod: str, uid: str, namespace: str, bound: bool, number: int
    ) -> dict[str, Any]:
        dice, class_name = self.dice, self.dice.choice(("late", "late-capped"))
        spec = self._claim_spec(class_name)
        if dice.chance(0.85) or bound:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
            if dice.chance(0.1):
                owner["uid"] = "somebody-else"
            name = f"{pod}-volume-{number}"
            metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
            self._add_claim(metadata, dict(spec), class_name, bound)
        return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}

    def _claim(self, namespace: str, bound: bool) -> str:
        """A claim of the namespace, new or shared with Pods before."""
        dice, shared = self.dice, self.shared[namespace]
        if shared and dice.has("sharedClaims"):
            return dice.choice(shared)
        if self.exclusive[namespace] and dice.has("readWriteOncePod"):
            return dice.choice(self.exclusive[namespace])
        if dice.has("missingClaim") and not bound:
            return "no-such-claim"
        self._count += 1
        name, class_name = f"claim-{self._count:03}", dice.choice(list(CLASSES))
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        shared.append(name)
        spec = self._claim_spec(class_name)
        if "ReadWriteOncePod" in spec["accessModes"]:
            self.exclusive[namespace].append(name)
        self._add_claim(metadata, spec, class_name, bound)
        return name

    def _claim_spec(self, class_name: str) -> dict[str, Any]:
        dice = self.dice
        mode = "ReadWriteOncePod" if dice.has("readWriteOncePod") else "ReadWriteOnce"
        size = dice.choice(("1Gi", "8Gi", "30Gi"))
        spec = {
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
        }
        if dice.has("claimWithoutClass"):
            del spec["storageClassName"]
        elif dice.has("unknownClass"):
            spec["storageClassName"] = "no-such-class"
        return spec

    def _add_claim(
        self, metadata: dict[str, Any], spec: dict[str, Any], class_name: str, bound: bool
    ) -> None:
        dice = self.dice
        phase = "Pending"
        annotations: dict[str, str] = {}
        if bound or dice.chance(0.5):
            phase = "Bound"
            reference = f"{metadata['namespace']}/{metadata['name']}"
            spec["volumeName"] = self._add_volume(class_name, reference, spec)
            if not dice.has("bindUnfinished"):
                annotations["pv.kubernetes.io/bind-completed"] = "yes"
            if dice.has("missingVolume"):
                spec["volumeName"] = "no-such-volume"
        elif CLASSES[class_name][1] == WAIT:
            if dice.has("selectedNode") and self.world.nodes:
                annotations["volume.kubernetes.io/selected-node"] = dice.choice(self.world.nodes)
            if class_name == "late-static" and dice.has("claimSelector"):
                spec["selector"] = {"matchLabels": {"speed": "fast"}}
        if phase == "Bound" and dice.has("lostClaim"):
            phase = "Lost"
        if dice.has("deletedClaim"):
            metadata["deletionTimestamp"] = "2025-12-30T00:00:00Z"
        self.world.add(
            "v1",
            "PersistentVolumeClaim",
            metadata=without_empty({**metadata, "annotations": annotations}),
            spec=spec,
            status={"phase": phase},
        )

    def _add_volume(
        self, class_name: str, bound_to: str | None, claim: dict[str, Any] | None = None
    ) -> str:
        """A volume, free or bound to ``namespace/name``, that only some nodes can reach."""
        dice = self.dice
        self._count += 1
        name = f"pv-{self._count:03}"
        metadata: dict[str, Any] = {"name": name, "labels": {}}
        modes = claim["accessModes"] if claim else ["ReadWriteOnce"]
        spec: dict[str, Any] = {
            "capacity": {"storage": dice.choice(("1Gi", "10Gi", "40Gi"))},
            "accessModes": modes,
            "storageClassName": class_name,
            **self._source(class_name, name),
        }
        if bound_to:
            namespace, claimed = bound_to.split("/")
            spec["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claimed,
            }
        if dice.has("volumeNodeAffinity"):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._reach()]}}
        if dice.has("volumeZoneLabel"):
            zones = dice.some(self.world.zones, 1, 2)
            key = dice.choice((ZONE, "failure-domain.beta.kubernetes.io/zone"))
            metadata["labels"][key] = "__".join(zones)
        if dice.chance(0.3):
            metadata["labels"]["speed"] = dice.choice(("fast", "slow"))
        self.world.add(
            "v1",
            "PersistentVolume",
            metadata=without_empty(metadata),
            spec=spec,
            status={"phase": "Bound" if bound_to else "Available"},
        )
        return name

    def _source(self, class_name: str, name: str) -> dict[str, Any]:
        if class_name == "late-ebs" and self.dice.chance(0.7):
            return {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
        if class_name == "late-static":
            return {"hostPath": {"path": "/data"}}
        driver = {"late-ebs": EBS}.get(class_name, CLASSES[class_name][0])
        return {"csi": {"driver": driver, "volumeHandle": f"handle-{name}"}}

    def _reach(self) -> dict[str, Any]:
        """A term that allows a zone or a few nodes."""
        dice = self.dice
        key, values = dice.choice(((ZONE, self.world.zones), (HOSTNAME, self.world.nodes)))
        chosen = dice.some(values, max(1, len(values) // 3))
        return {"matchExpressions": [{"key": key, "operator": "In", "values": chosen}]}
