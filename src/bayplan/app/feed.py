"""Feed: informers and inbox, started before the scheduler is imported and built.

The API server needs a second or more to list a large cluster. So the lists start as soon as the
configuration names the API server; the objects wait in the inbox for the scheduling thread.
"""

from __future__ import annotations

from bayplan.api.kinds import CORE_KINDS
from bayplan.client.connection import Connection
from bayplan.client.kubeconfig import Where
from bayplan.inbox.inbox import Inbox
from bayplan.informers.factory import Informers
from bayplan.telemetry.instrument import Instrument, Instruments
from bayplan.telemetry.metrics import Metrics


class Feed:
    """The connection to the API server, and the informers that fill the inbox.

    Args:
        instrument: receives everything, as the metrics do.

    Attributes:
        metrics: what is shown on /metrics.
        instrument: tells all of them.

    Raises:
        KubeconfigError: there are no usable credentials.
    """

    def __init__(self, kubeconfig: Where, instrument: Instrument | None = None) -> None:
        self.metrics = Metrics()
        self.instrument: Instrument = (
            Instruments(self.metrics, instrument) if instrument else self.metrics
        )
        self.connection = Connection.load(kubeconfig, self.instrument)
        self.inbox = Inbox()
        self.informers = Informers(self.connection, self.inbox.post_all)

    def start(self) -> None:
        """Ask for the first lists of what every scheduler needs; the profiles' kinds come later."""
        self.informers.watch(CORE_KINDS)
