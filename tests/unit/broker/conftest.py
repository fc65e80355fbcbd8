"""A broker in memory with its defaults, and one client of it."""

from collections.abc import Iterator

import pytest

from tests.unit.broker.peer import Bed, Peer


@pytest.fixture
def bed() -> Iterator[Bed]:
    """It is at rest when the test has ended, with its books balanced."""
    made = Bed()
    yield made
    made.settle()


@pytest.fixture
def peer(bed: Bed) -> Peer:
    """A connection to `bed` with one channel."""
    return bed.connect()
