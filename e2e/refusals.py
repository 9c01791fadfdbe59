"""Bindings that the API server refuses, by an admission policy."""

from __future__ import annotations

from e2e.cluster import SOON, Cluster
from e2e.provider import wait_until

_NAME = "e2e-bindings"
_API = "admissionregistration.k8s.io/v1"
_BINDINGS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods/binding"],
}


def refuse_bindings(cluster: Cluster, expression: str, pod: str = "g-1", node: str = "n1") -> None:
    """Let the API server refuse bindings of which the CEL expression is false.

    Returns when the binding of ``pod`` to ``node``, which has to be one of them, is refused.
    """
    policy = {
        "matchConstraints": {"resourceRules": [_BINDINGS]},
        "validations": [{"expression": expression, "message": "not now"}],
    }
    binding = {"policyName": _NAME, "validationActions": ["Deny"]}
    meta = {"name": _NAME}
    objects = [
        {"apiVersion": _API, "kind": kind, "metadata": meta, "spec": spec}
        for kind, spec in (
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        )
    ]
    cluster.put(*objects)
    wait_until(lambda: _is_refused(cluster, pod, node), SOON, "the policy")


def allow_bindings(cluster: Cluster) -> None:
    """Let it refuse none of them any more."""
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        cluster.kubectl("delete", kind, _NAME, "--ignore-not-found")


def _is_refused(cluster: Cluster, pod: str, node: str) -> bool:
    """Whether the policy is in force; it is asked before anybody looks for the Pod."""
    from kubernetes.client import ApiException  # noqa: PLC0415  takes a second, not spent by all

    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    where = (pod, cluster.namespace, body)
    try:
        cluster.api.create_namespaced_pod_binding(*where, dry_run="All", _preload_content=False)
    except ApiException as error:
        return "not now" in str(error.body)
    return False
