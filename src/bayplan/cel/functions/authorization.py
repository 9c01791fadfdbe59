"""Functions on Kubernetes' authorizer: declared, but there is nothing to call them on.

Selectors have no authorizer, so whatever they are called on has the wrong type.
Source: k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from typing import NoReturn

from bayplan.cel.functions.registry import STRING, exactly, method

_AUTHORIZER = exactly()  # no value is one


def _never(*_: object) -> NoReturn:
    raise AssertionError("no value is of a type of the authorizer")


for _name in ["errored", "error", "allowed", "reason"]:
    method(_name, _AUTHORIZER)(_never)
for _name in ["path", "group", "resource", "subresource", "namespace", "name", "check"]:
    method(_name, _AUTHORIZER, STRING)(_never)
for _name in ("fieldSelector", "labelSelector"):
    method(_name, _AUTHORIZER, STRING)(_never)
method("serviceAccount", _AUTHORIZER, STRING, STRING)(_never)
