"""A range is read over as many connections as it takes, for as long as reconnectTimeout says."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from penstock.client.errors import ConnectionClosedError
from penstock.spark.connector.common import outage, ranges
from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.common.ranges import Run, read_batches
from penstock.spark.connector.common.shape import Shape
from tests.unit.spark.connector.wire import at_offset

LOST = ConnectionClosedError(0, "lost", False)
SHAPE = Shape("s")


class Clock:
    """A time that passes where somebody sleeps."""

    now_ns = 1

    def monotonic_ns(self) -> int:
        self.now_ns += 1
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class Links:
    """Makes links; a connection that was handed over is dead."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, endpoint: Any, queue: str, prefetch: int, name: str, given: Any) -> "Links":
        if given is not None:
            raise LOST
        self.made += 1
        assert self.made < 1000, "without end"
        return self

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Links:
    found = Links()
    monkeypatch.setattr(ranges, "QueueLink", found)
    monkeypatch.setattr(outage, "time", Clock())
    return found


def test_a_connection_that_is_lost_again_and_again_ends_the_task(links: Links) -> None:
    options = parse_source({"queue": "s", "mode": "stream", "reconnectTimeout": "10s"})

    def runs(*given: object) -> Iterator[Run]:
        raise LOST
        yield 0, b"", 0

    with pytest.raises(ConnectionClosedError):
        list(read_batches(options, 0, 3, SHAPE, runs))
    assert 15 < links.made < 25, "a look every half second"


@pytest.mark.parametrize("timeout", ["0s", "10s"])
def test_progress_is_no_outage(links: Links, timeout: str) -> None:
    """A connection that had ended before it was used is opened again at once."""
    options = parse_source({"queue": "s", "mode": "stream", "reconnectTimeout": timeout})

    def runs(link: object, given: object, first: int, stop: int) -> Iterator[Run]:
        yield first, at_offset(first), first + 1
        raise LOST

    found = list(read_batches(options, 0, 3, SHAPE, runs))
    assert sum(one.num_rows for one in found) == 3


def test_a_dead_connection_is_not_used_again(links: Links) -> None:
    options = parse_source({"queue": "s", "mode": "stream", "reconnectTimeout": "10s"})

    def runs(link: object, given: object, first: int, stop: int) -> Iterator[Run]:
        yield first, at_offset(first), first + 1

    dead: Any = object()
    found = list(read_batches(options, 0, 3, SHAPE, runs, dead))
    assert sum(one.num_rows for one in found) == 3
