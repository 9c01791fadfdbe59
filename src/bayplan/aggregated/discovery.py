"""Discovery: what the API serves, for the API server and kubectl."""

from __future__ import annotations

from typing import Any

from bayplan.aggregated.resources import GROUP, PREFIX, VERSION, resources

_VERSION = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
_GROUP: dict[str, Any] = {"name": GROUP, "versions": [_VERSION], "preferredVersion": _VERSION}


def documents() -> dict[str, dict[str, Any]]:
    """Discovery documents by path, in the form that every API server understands."""
    listed = [
        {
            "name": resource.name,
            "singularName": "",
            # The API server refuses subresources of one resource that differ in this.
            "namespaced": True,
            "kind": resource.kind,
            "verbs": [resource.verb],
        }
        for resource in resources()
    ]
    resource_list = {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}"}
    return {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]},
        f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1"} | _GROUP,
        PREFIX: resource_list | {"apiVersion": "v1", "resources": listed},
    }
