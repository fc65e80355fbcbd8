"""A sink looks at its broker when a query begins, and not in each of its batches."""

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.client.errors import ChannelClosedError
from penstock.spark.connector.common.options import SinkOptions, parse_sink
from penstock.spark.connector.sink import sink
from penstock.spark.connector.sink.messages import RowPlan, plan_rows

ROWS = {"body": "binary"}


class Clock:
    """A time that is set."""

    def __init__(self) -> None:
        self.now_s = 1.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(sink, "time", found)
    monkeypatch.setattr(sink, "_seen_s", {})
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues that were looked for."""
    found: list[str] = []

    def look(options: SinkOptions, plan: RowPlan) -> None:
        found.append(options.routing_key)
        if options.routing_key == "none":
            raise ChannelClosedError(1, 404, "no queue 'none'")

    monkeypatch.setattr(sink, "check_sink", look)
    return found


def batch(queue: str, **more: Any) -> None:
    """A batch of the query into `queue` begins."""
    options = parse_sink({"routingKey": queue, **more})
    sink.check_query(options, plan_rows(ROWS, options))


def test_a_query_is_looked_at_when_it_begins_and_after_a_pause(
    clock: Clock, looks: list[str]
) -> None:
    for _ in range(5):
        batch("q")
        clock.now_s += sink.QUIET_S - 1
    assert looks == ["q"]
    clock.now_s += sink.QUIET_S
    batch("q")
    assert looks == ["q", "q"]


def test_another_query_is_another_look(clock: Clock, looks: list[str]) -> None:
    batch("q")
    batch("q", password="wrong")
    batch("r")
    batch("q")
    assert looks == ["q", "q", "r"]


def test_what_was_refused_is_looked_at_again(clock: Clock, looks: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(ChannelClosedError):
            batch("none")
    assert looks == ["none", "none"]


def test_only_so_many_queries_are_remembered(clock: Clock, looks: list[str]) -> None:
    for number in range(sink.SEEN_MOST + 1):
        batch(f"q{number}")
    assert len(sink._seen_s) == sink.SEEN_MOST
    batch("q1")
    assert len(looks) == sink.SEEN_MOST + 1
    batch("q0")
    assert looks[-1] == "q0"
