"""A sink outlives several outages of its broker, each of them shorter than reconnectTimeout."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ConnectionClosedError
from penstock.client.events import ClientEvent, Confirmed
from penstock.protocol.values import Table
from penstock.spark.connector.common import outage
from penstock.spark.connector.common.options import SinkOptions, parse_sink
from penstock.spark.connector.sink import committer, publisher
from penstock.spark.connector.sink.committer import StagedBatch, commit_batch
from penstock.spark.connector.sink.messages import NO_ORIGIN, RowFrames, RowPlan, plan_rows

SINK = parse_sink({"routingKey": "q", "delivery": "exactly-once", "reconnectTimeout": "60s"})
BATCH = StagedBatch("job", 7)
LOST = ConnectionClosedError(0, "lost", False)
GONE = ChannelClosedError(1, 404, "there is no staged transaction 'a' of app 'job', batch 7")


class Clock:
    """A time that passes where somebody sleeps or works."""

    def __init__(self) -> None:
        self.now_ns = 1

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(outage, "time", found)
    return found


def test_a_commit_outlives_a_second_outage(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two the broker was there, and had everything staged again."""
    asked: list[object] = []
    faults = [*[LOST] * 80, GONE, LOST]

    def ask(options: SinkOptions, verb: str, arguments: Table) -> Table:
        if verb == "transaction.rollback":
            return {"dropped": 0}
        asked.append(arguments["ids"])
        if faults:
            raise faults.pop(0)
        return {"already": False}

    def stage_again() -> list[str]:
        clock.sleep(30)
        return ["b"]

    monkeypatch.setattr(committer, "_ask", ask)
    assert commit_batch(SINK, BATCH, ["a"], stage_again)
    assert asked[-3:] == [["a"], ["b"], ["b"]]


def test_what_survived_makes_room_before_all_is_staged_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that ended after the restart still have theirs at the broker, which has a bound."""
    there = {"b", "c"}

    def ask(options: SinkOptions, verb: str, arguments: Table) -> Table:
        ids = arguments["ids"]
        assert isinstance(ids, list)
        if verb == "transaction.commit" and not there.issuperset(map(str, ids)):
            raise GONE
        there.difference_update(map(str, ids))
        return {"already": False}

    def stage_again() -> list[str]:
        assert not there, "the broker may hold no more than three"
        there.update("def")
        return ["d", "e", "f"]

    monkeypatch.setattr(committer, "_ask", ask)
    assert commit_batch(SINK, BATCH, ["a", "b", "c"], stage_again)
    assert not there


class Breaking:
    """A publisher whose broker is lost while it takes the rows of some batches."""

    channel = 1
    frame_bytes_max = 4096
    identity = "a"
    clock: Clock
    losses: list[int]

    def __init__(self, *given: object) -> None:
        self.staged = 0

    def publish(self, frames: RowFrames) -> None:
        for _ in frames.ends:
            self.clock.sleep(20)
            self.staged += 1
            if self.losses and self.staged == self.losses[0]:
                self.losses.pop(0)
                raise LOST

    def finish(self) -> None:
        """Everything was counted."""

    def close(self) -> None:
        """In order."""

    drop = close


def staged(losses: list[int], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> int:
    import pyarrow as pa

    def rows() -> Iterator[Any]:
        for number in range(8):
            yield pa.record_batch({"body": pa.array([b"%d" % number])})

    Breaking.clock, Breaking.losses = clock, losses
    monkeypatch.setattr(publisher, "StagingPublisher", Breaking)
    plan: RowPlan = plan_rows({"body": "binary"}, SINK)
    return publisher.stage_rows(rows(), plan, SINK, NO_ORIGIN, BATCH)[1]


def test_a_task_outlives_a_second_outage(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert staged([2, 7], clock, monkeypatch) == 8


def test_a_task_that_gets_no_further_ends(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionClosedError):
        staged([7] * 50, clock, monkeypatch)


def test_what_is_not_sent_is_not_kept(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Rows go to the driver after their task, and maxStagedBytes bounds what is sent of them."""
    import pyarrow as pa

    options = parse_sink(
        {"routingKey": "q", "delivery": "exactly-once", "ignoreUnknownColumns": "true"}
    )
    large = pa.array([b"x" * 100_000] * 3)
    rows = pa.record_batch({"picture": large, "body": pa.array([b"a", b"b", b"c"])})
    plan = plan_rows({"picture": "binary", "body": "binary"}, options)
    Breaking.clock, Breaking.losses = clock, [2]
    monkeypatch.setattr(publisher, "StagingPublisher", Breaking)
    kept: list[Any] = []
    found = publisher.stage_rows(iter([rows]), plan, options, NO_ORIGIN, BATCH, kept)
    assert found == ("a", 3), "it was staged twice, of which the second time from what was kept"
    assert sum(one.nbytes for one in kept) < 1000
    assert kept[0].column("body").to_pylist() == [b"a", b"b", b"c"]


def framed(data: bytes, *ends: int) -> RowFrames:
    import numpy as np

    return RowFrames(data, np.array(ends))


class Ending:
    """A channel that takes `left` publishes, and has then been told that its connection ends."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.taken: list[bytes] = []
        self.rows = 0

    @property
    def session(self) -> "Ending":
        return self

    def publish_frames(self, channel: int, frames: bytes, mark: int, count: int) -> int:
        if len(self.taken) == self.left:
            raise ConnectionClosedError(320, "broker forced connection closure", True)
        self.taken.append(frames)
        self.rows += count
        return self.rows - count + 1

    def exchange(self, timeout_ms: float) -> tuple[None, list[ClientEvent]]:
        return None, []

    def wants_write(self) -> bool:
        return False

    def drop(self) -> None:
        """Without a word."""


def test_a_broker_that_ends_between_two_rows_is_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words came with confirms: the next publish finds the connection closed."""
    wires = [Ending(2), Ending(1), Ending(5)]
    used: list[Ending] = []

    def opened(self: Any) -> None:
        used.append(wires.pop(0))
        self.channel, self._wire, self._blocked = 1, used[-1], None

    monkeypatch.setattr(publisher.ConfirmingPublisher, "_open", opened)
    options = parse_sink({"routingKey": "q", "reconnectTimeout": "60s"})
    found = publisher.ConfirmingPublisher(options, NO_ORIGIN)
    for data in (b"a", b"b", b"c", b"d"):
        found.publish(framed(data, 1))
    assert [one.taken for one in used] == [[b"a", b"b"], [b"a"], [b"a", b"b", b"c", b"d"]]


def test_what_was_confirmed_in_the_middle_of_a_run_is_not_published_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirms = [Confirmed(1, [2, 3], [0, 0], True)]

    class Confirming(Ending):
        def exchange(self, timeout_ms: float) -> tuple[None, list[ClientEvent]]:
            return None, [confirms.pop()] if confirms else []

    wires = [Confirming(2), Ending(9)]

    def opened(self: Any) -> None:
        self.channel, self._wire, self._blocked = 1, wires.pop(0), None
        used.append(self._wire)

    used: list[Ending] = []
    monkeypatch.setattr(publisher.ConfirmingPublisher, "_open", opened)
    found = publisher.ConfirmingPublisher(SINK, NO_ORIGIN)
    found.publish(framed(b"aabbbc", 2, 5, 5, 6))
    found.publish(framed(b"d", 1))
    found.publish(framed(b"e", 1))
    assert used[1].taken == [b"aa", b"c", b"d", b"e"]


def test_what_was_staged_again_is_dropped_when_the_rest_fails(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from penstock.spark.connector.sink import sink

    dropped: list[object] = []
    left = [("a2", 1)]

    def ask(options: SinkOptions, verb: str, arguments: Table) -> Table:
        if verb == "transaction.commit":
            raise GONE
        dropped.append(arguments["ids"])
        return {"dropped": 0}

    def stage(*given: object) -> tuple[str, int]:
        if not left:
            raise OperatorError("no room")
        return left.pop()

    monkeypatch.setattr(committer, "_ask", ask)
    monkeypatch.setattr(sink, "stage_rows", stage)
    tasks = [sink.Written(1, "job", one) for one in ("a", "b")]
    with pytest.raises(OperatorError, match="no room"):
        sink.commit_all(SINK, plan_rows({"body": "binary"}, SINK), BATCH, list(tasks))
    assert dropped == [["a", "b"], ["a2"]]
