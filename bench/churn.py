"""Churn: what goes on in the cluster beside the measured Pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from bench.api import BulkClient
from bench.objects import PLACED, Objects, collection
from bench.workloads import Churn, Workload


class ChurnThread:
    """Does every churn of a workload at its pace, from `start` to `stop`."""

    def __init__(self, workload: Workload, objects: Objects, client: BulkClient) -> None:
        self._client = client
        self._objects = objects
        self._stop = threading.Event()
        steps = [(churn.every, self._steps(i, churn)) for i, churn in enumerate(workload.churn)]
        self._namespace = workload.placed[0].namespace if workload.placed else "default"
        self._threads = [
            threading.Thread(target=self._run, args=step, name="churn", daemon=True)
            for step in steps
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self, every: float, steps: Iterator[None]) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            next(steps)
            due += every

    def _steps(self, number: int, churn: Churn) -> Iterator[None]:
        previous = ""
        index = 0
        while True:
            if churn.do == "delete":
                self._client.delete(f"{collection('Pod', self._namespace)}/{PLACED}{index}")
            else:
                item = self._objects.churned(churn.template, f"churn-{number}-{index}")
                if previous:
                    self._client.delete(previous)
                self._client.create(item)
                previous = f"{item.path}/{item.name}" if churn.do == "recreate" else ""
            index += 1
            yield
