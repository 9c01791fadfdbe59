"""A misbehaving server for each test that asks for one."""

from collections.abc import Iterator

import pytest
from tests.client.fault_server import FaultServer, running_server


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running
