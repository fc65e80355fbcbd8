"""Groups that read a stream and hold it: what one has not passed stays, and lag stops publishers.

    position <= next                 what retention may end lies before the lowest position
    lag > bound                      the group holds whoever publishes to the stream; what was taken
                                     from publishers and is not in the log yet counts
    lag <= three quarters of it      it lets them go on
A group is a promise of its readers to come back: it outlives their connections, and the broker.
Pure. Source: design/spark.md 4.2, 5.1; RabbitMQ has nothing like it.
"""

from typing import Final

from mypy_extensions import i64

from penstock.streams.log import StreamLog

BAND_PARTS: Final = 4


class LagBound:
    """How far behind a group may be; 0 for no bound of that kind."""

    __slots__ = ("bytes", "messages")

    def __init__(self, messages: i64, bytes_: i64) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes_


class ReaderGroup:
    """One group. position: the first offset it has not passed; mark_bytes: what the log had written
    before that; own: the bound its readers ask for, bound: that and the stream's; is_holding: it
    holds publishers; since_ns: when it last moved;
    query: what people know its readers by, "" where they have not said."""

    __slots__ = (
        "bound",
        "is_holding",
        "mark_bytes",
        "name",
        "own",
        "position",
        "query",
        "since_ns",
    )

    def __init__(self, name: str, own: LagBound, now_ns: i64) -> None:
        self.name = name
        self.query = ""
        self.own = own
        self.bound = own
        self.position: i64 = 0
        self.mark_bytes: i64 = 0
        self.is_holding = False
        self.since_ns: i64 = now_ns

    def lag_messages(self, log: StreamLog) -> i64:
        """Messages it has not passed."""
        return log.next - self.position

    def lag_bytes(self, log: StreamLog) -> i64:
        """The bytes of these on the disk, to within an entry of the index."""
        return log.written_bytes - self.mark_bytes if self.position < log.next else 0

    def move(self, log: StreamLog, position: i64) -> None:
        """It is at `position` now, or as near as there is something to read."""
        first: i64 = log.first()
        if position < first:
            position = first
        if position > log.committed:
            position = log.committed
        self.position = position
        self.mark_bytes = log.written_bytes - log.bytes_since(position)

    def bound_by(self, stream: LagBound, default_bytes: i64, most_bytes: i64) -> None:
        """The stricter of its own bound and the stream's; `default_bytes` where neither says
        anything; most_bytes: in any case, 0 for no such case."""
        messages: i64 = _stricter(self.own.messages, stream.messages)
        bytes_: i64 = _stricter(self.own.bytes, stream.bytes)
        if messages == 0 and bytes_ == 0:
            bytes_ = default_bytes
        self.bound = LagBound(messages, _stricter(bytes_, most_bytes))

    def judge(self, log: StreamLog) -> None:
        """Whether it holds publishers now."""
        bound = self.bound
        messages: i64 = self.lag_messages(log) + log.coming
        bytes_: i64 = self.lag_bytes(log) + log.coming_bytes
        if self.is_holding:
            self.is_holding = _is_above(messages, _low(bound.messages), bound.messages) or (
                _is_above(bytes_, _low(bound.bytes), bound.bytes)
            )
        else:
            self.is_holding = _is_above(messages, bound.messages, bound.messages) or (
                _is_above(bytes_, bound.bytes, bound.bytes)
            )


def lowest(groups: dict[str, ReaderGroup]) -> i64:
    """The first offset that a group has not passed, -1 when there is no group."""
    found: i64 = -1
    for group in groups.values():
        if found < 0 or group.position < found:
            found = group.position
    return found


def _stricter(one: i64, other: i64) -> i64:
    if one == 0 or (other > 0 and other < one):
        return other
    return one


def _low(bound: i64) -> i64:
    return bound - bound // BAND_PARTS


def _is_above(lag: i64, level: i64, bound: i64) -> bool:
    return bound > 0 and lag > level
