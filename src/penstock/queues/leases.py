"""What one group holds of a queue: messages in a row of its own numbers, until it is done.

    acked_to <= number < end    held, or lost: given back, or not there after a restart
Numbers are given when messages are leased, one after the other, so a range of them has no gaps and
means the same messages as often as it is read, whatever others took from the queue in between.
Whoever names a `start` is done with everything below it, and has planned nothing from it on: what
is lost from there on gives its number to the next message. Source: design/spark.md 5.3.
"""

from mypy_extensions import i64

from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


class LeaseGroup:
    """One group's messages. entries: by number from `acked_to` on, None for what is lost;
    held_count, held_bytes: of those that are not; gaps: how often the next of them was not the next
    of the queue; consumer: under which the queue counts them as unanswered; renewed_ns: its last
    sign of life; settled: log positions it is done with, as far as the disk may not know it; top:
    the highest log position it ever held; query: what people know it by; is_forgettable: nobody
    minds if it goes when there are too many groups and it holds nothing."""

    __slots__ = (
        "acked_to",
        "consumer",
        "entries",
        "gaps",
        "held_bytes",
        "held_count",
        "is_forgettable",
        "name",
        "query",
        "renewed_ns",
        "settled",
        "timeout_ns",
        "top",
    )

    def __init__(self, name: str, consumer: Consumer, timeout_ns: int) -> None:
        self.name = name
        self.query = ""
        self.is_forgettable = False
        self.consumer = consumer
        self.acked_to: i64 = 0
        self.entries: list[Delivery | None] = []
        self.gaps: i64 = 0
        self.held_count: i64 = 0
        self.held_bytes: i64 = 0
        self.renewed_ns: i64 = 0
        self.timeout_ns: i64 = timeout_ns
        self.settled: list[int] = []
        self.top: i64 = 0

    def end(self) -> i64:
        """The number that the next message gets."""
        return self.acked_to + len(self.entries)

    def add(self, delivery: Delivery) -> None:
        """`delivery` is leased, behind the others."""
        if self.entries:
            last = self.entries[-1]
            if last is None or not _is_behind(last, delivery):
                self.gaps += 1
        self.entries.append(delivery)
        self.held_count += 1
        self.held_bytes += len(delivery.message.raw) + MESSAGE_OVERHEAD_BYTES

    def add_lost(self) -> None:
        """A number whose message is not there any more."""
        self.entries.append(None)

    def advance(self, start: i64) -> list[Delivery]:
        """Everything below `start` is done, and nothing from there on is planned; the deliveries
        that are done. start: acked_to .. end."""
        count: i64 = start - self.acked_to
        done = [entry for entry in self.entries[:count] if entry is not None]
        rest = [entry for entry in self.entries[count:] if entry is not None]
        self.give_up()
        self.acked_to = start
        for delivery in rest:
            self.add(delivery)
        return done

    def give_up(self) -> list[Delivery]:
        """Everything that is held is given back: the deliveries."""
        held = self.held()
        self.entries = []
        self.gaps = 0
        self.held_count = 0
        self.held_bytes = 0
        return held

    def held(self) -> list[Delivery]:
        """What is not lost, in order."""
        return [entry for entry in self.entries if entry is not None]

    def held_since_ns(self) -> i64:
        """When the first of what is held was leased, to the second; 0 when nothing is."""
        for entry in self.entries:
            if entry is not None:
                return entry.given_ns
        return 0

    def at(self, number: i64) -> Delivery | None:
        """The delivery with that number, None if it is not held."""
        index: i64 = number - self.acked_to
        if index < 0 or index >= len(self.entries):
            return None
        return self.entries[index]

    def first_lost(self, first: i64, stop: i64) -> i64:
        """The first of first..stop-1 that is not held, -1 if all are."""
        number: i64 = first
        while number < stop:
            if self.at(number) is None:
                return number
            number += 1
        return -1

    def held_runs(self, first: i64, stop: i64) -> list[tuple[int, int]]:
        """What of first..stop-1 is held, as ranges (first, stop)."""
        runs: list[tuple[int, int]] = []
        begin: i64 = -1
        number: i64 = first if first > self.acked_to else self.acked_to
        end: i64 = stop if stop < self.end() else self.end()
        while number < end:
            is_held = self.at(number) is not None
            if is_held and begin < 0:
                begin = number
            elif not is_held and begin >= 0:
                runs.append((int(begin), int(number)))
                begin = -1
            number += 1
        if begin >= 0:
            runs.append((int(begin), int(end)))
        return runs


def _is_behind(last: Delivery, delivery: Delivery) -> bool:
    if delivery.position != last.position + 1:
        return False
    return (last.message.stored is None) == (delivery.message.stored is None)


def as_runs(positions: list[int]) -> list[list[int]]:
    """Positions as [first, count], in their order; 0 for none stands for itself: [0, count]."""
    runs: list[list[int]] = []
    for position in positions:
        if runs:
            run = runs[-1]
            wanted = 0 if run[0] == 0 else run[0] + run[1]
            if position == wanted:
                run[1] += 1
                continue
        runs.append([position, 1])
    return runs
