"""Fingerprint: which Pods are where, as one number.

A Pod that comes adds to it what it takes away when it goes. So the same Pods at the same places are
the same number, whatever has been there meanwhile: who compares it sees nothing of a trial that is
rolled back, nor of a Pod that is assumed and forgotten. Journals do the other half: they say which
rows may have changed, and every trial is in these.

Two different states have the same number once in 2^60: strings are hashed with a secret key.
"""

from __future__ import annotations

from bayplan.api.pod import Pod


def fingerprint(pod: Pod, place: int | str) -> int:
    """What ``pod`` adds at a place; with other labels or another spec it adds something else."""
    return hash(f"{pod.uid} {pod.shape.id} {place}")
