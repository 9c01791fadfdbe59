"""Sentences: what a person is told first, from the rest of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api import quantity


def sentence(answer: Mapping[str, Any]) -> str:
    """What a person is told first."""
    pod, state = answer["pod"], answer["state"]
    last, now = answer.get("last", {}), answer.get("now", {})
    if state == "Gone":
        return f"{pod} is gone; its last attempt ended: {last.get('message') or last['reason']}"
    if state == "Running":
        return f"{pod} has the node {answer['node']}."
    if state == "Binding":
        return f"{pod} is being bound to {answer['node']}."
    if state == "WaitsInPermit":
        permit = answer["permit"]
        plugins = ", ".join(permit["plugins"])
        left = f"at most {permit['secondsLeft']:g} s more"
        return f"{pod} waits in Permit for {plugins}, {left}, to go to {answer['node']}."
    if state == "NotOurs":
        return f"{pod} asks for the scheduler {answer['scheduler']}, which is none of this one's."
    if group := answer.get("group"):
        waits = f"{pod} waits with its group {group['name']}"
        return f"{waits}: {group['message'] or 'its turn has not come'}"
    if nominated := answer.get("nominated"):
        where = f" on {nominated['node']}" if "node" in nominated else ""
        if leaving := nominated.get("leaving"):
            since = f", since {nominated['leavingSince']}" if "leavingSince" in nominated else ""
            return f"{pod} waits for {leaving} Pods to leave{where}{since}."
    if held := now.get("heldBy"):
        return f"{pod} is held back by {held}: {now['message']}"
    return f"{pod} {_next(answer, now)}"


def sentence_of_group(answer: Mapping[str, Any]) -> str:
    """The same of a group."""
    name, now = f"group {answer['group']}", answer.get("now", {})
    if not answer.get("waiting"):
        return f"{name}: {answer.get('placed', 0)} Pods have a node, none waits."
    if planned := now.get("planned"):
        domain = now.get("domain")
        where = f", together in {domain['level']} {domain['value']}" if domain else ""
        return f"{name} waits for its turn: {planned} Pods fit now{where}."
    said = now.get("message") or answer.get("message") or "its turn has not come"
    return f"{name} waits: {said}"


def _next(answer: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    backoff = answer.get("queue", {}).get("backoffSeconds")
    after = f" in {backoff:g} s" if backoff else ""
    if fitting := now.get("fitting"):
        return f"waits for its turn{after}: {fitting} nodes fit now."
    text = f"waits: {now.get('message') or 'nothing is known about nodes'}"
    almost = now.get("almost", ())
    if almost:
        name = almost[0]["resource"]
        amounts = (quantity.shown(name, almost[0][what]) for what in ("requested", "free"))
        asked, free = amounts
        where = almost[0].get("node", "one node")
        text += f" Nearest: {where} has {free} {name} free of the {asked} that it needs."
    return text
