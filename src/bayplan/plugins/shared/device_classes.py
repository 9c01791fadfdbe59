"""Device classes behind extended resources: a Pod may ask for ``example.com/gpu`` and get a device.

Of several classes with the same ``extendedResourceName`` the newest counts, then the lower name.
Every class also stands for ``deviceclass.resource.kubernetes.io/NAME``.
"""

from __future__ import annotations

from datetime import UTC, datetime

from bayplan.api.kinds import DEVICE_CLASS
from bayplan.api.resource import DeviceClass
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared.resource_names import is_extended

PREFIX = "deviceclass.resource.kubernetes.io/"
_NEVER = datetime.min.replace(tzinfo=UTC)


def may_have_class(resource: str) -> bool:
    """Whether ``resource`` is of a kind that a class can stand for."""
    return is_extended(resource) or resource.startswith(PREFIX)


class DeviceClasses:
    """Classes by extended resource; shared by all plugins.

    Attributes:
        epoch: changes whenever the answers may have.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self.epoch = 0
        self._objects = objects
        self._by_resource: dict[str, DeviceClass] = {}
        objects.on_change(DEVICE_CLASS, self._changed)

    def __len__(self) -> int:
        return len(self._by_resource)

    def behind(self, resource: str) -> DeviceClass | None:
        """The class of which ``resource`` asks for devices, if there is one."""
        if not self._by_resource or not may_have_class(resource):
            return None
        return self._by_resource.get(resource)

    def _changed(self, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        classes = sorted(self._objects.all(DEVICE_CLASS), key=lambda c: c.name, reverse=True)
        classes.sort(key=lambda c: c.metadata.creation_timestamp or _NEVER)
        self._by_resource = {PREFIX + c.name: c for c in classes}
        for device_class in classes:
            if device_class.spec.extended_resource_name is not None:
                self._by_resource[device_class.spec.extended_resource_name] = device_class
        self.epoch += 1
