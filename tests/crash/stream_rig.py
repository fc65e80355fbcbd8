"""Streams on a disk that may lose power, and what has to be there afterwards."""

from dataclasses import dataclass, field

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention, StreamLog
from penstock.streams.reading import StreamRead
from penstock.streams.recovery import StreamReport, recover_streams
from tests.crash.rig import message

Entry = tuple[int, int]
"""(queue id, offset)."""

APPENDED = "appended"
CONFIRMED = "confirmed"
ENDED = "ended"
DROPPED = "dropped"

SEGMENT_BYTES = 1500
HISTORY_BYTES = 4000
CHUNK_BYTES = 300
"""So that some batches have several chunks of a stream."""


@dataclass(slots=True)
class StreamExpectation:
    """required: confirmed, and neither retained out nor dropped; allowed: everything that was ever
    appended, with its bytes; streams: those that exist."""

    required: dict[Entry, bytes] = field(default_factory=dict)
    allowed: dict[Entry, bytes] = field(default_factory=dict)
    streams: set[int] = field(default_factory=set)

    def happened(self, kind: str, entries: list[Entry], bodies: dict[Entry, bytes]) -> None:
        """One event of a history. ENDED: everything of a stream below an offset may be gone."""
        for entry in entries:
            if kind == APPENDED:
                self.allowed[entry] = bodies[entry]
            elif kind == CONFIRMED:
                self.required[entry] = bodies[entry]
            else:
                for other in [one for one in self.required if one[0] == entry[0]]:
                    if kind == DROPPED or other[1] < entry[1]:
                        del self.required[other]
                if kind == DROPPED:
                    self.streams.discard(entry[0])

    def copy(self) -> "StreamExpectation":
        return StreamExpectation(dict(self.required), dict(self.allowed), set(self.streams))


def retention() -> Retention:
    return Retention(SEGMENT_BYTES, HISTORY_BYTES)


def recovered(
    disk: SimDisk, streams: set[int], seed: int = 99
) -> tuple[dict[int, StreamLog], StreamReport]:
    return recover_streams(disk, Dice(seed), {number: retention() for number in streams})


class StreamRig:
    """Drives one life of some streams and writes down what has happened, by the number of disk
    operations that were done before."""

    def __init__(
        self, disk: SimDisk, streams: set[int], start: StreamExpectation | None = None
    ) -> None:
        self.disk = disk
        self.handles = StreamHandles(disk)
        self.start = start or StreamExpectation(streams=set(streams))
        self.events: list[tuple[int, str, list[Entry]]] = []
        self.bodies: dict[Entry, bytes] = dict(self.start.allowed)
        self.logs = recovered(disk, streams, len(self.bodies) + 1)[0]
        for log in self.logs.values():
            log.chunk_bytes = CHUNK_BYTES
        self.now_us = 1_700_000_000_000_000
        self.open: list[Entry] = []
        self.unsafe: list[Entry] = []
        self.dropped: list[StreamLog] = []

    def note(self, kind: str, entries: list[Entry]) -> None:
        self.events.append((len(self.disk.ops), kind, entries))

    def publish(self, queue_id: int, count: int = 1, size: int = 40) -> None:
        log = self.logs[queue_id]
        for _ in range(count):
            self.now_us += 1000
            entry = (queue_id, int(log.next))
            body = f"{entry}:".encode() + bytes((entry[1] + n) % 251 for n in range(size))
            log.append(message(body), self.now_us)
            self.bodies[entry] = body
            self.open.append(entry)
            self.note(APPENDED, [entry])

    def flush(self, is_last: bool = False, is_prompt: bool = True) -> None:
        """One batch of everything, run, and confirmed with the next sync."""
        batch = StreamBatch(self.handles)
        batch.is_last = is_last
        batch.is_prompt = is_prompt
        for log in [*self.logs.values(), *self.dropped]:
            if is_last:
                log.take_last(batch)
            else:
                log.take(batch)
        self.dropped = []
        self.unsafe += self.open
        self.open = []
        self.note(ENDED, [(number, int(log.first())) for number, log in self.logs.items()])
        is_safe = batch.has_to_sync()
        batch.run()
        for deed in batch.chunks:
            self.logs[int(deed.segment.queue_id)].done(deed)
        if is_safe:
            self.note(CONFIRMED, [entry for entry in self.unsafe if entry[0] in self.logs])
            self.unsafe = []

    def drop(self, queue_id: int) -> None:
        log = self.logs.pop(queue_id)
        log.drop()
        self.dropped.append(log)
        self.open = [entry for entry in self.open if entry[0] != queue_id]
        self.note(DROPPED, [(queue_id, 0)])

    def expected(self) -> StreamExpectation:
        found = self.start.copy()
        for _, kind, entries in self.events:
            found.happened(kind, entries, self.bodies)
        return found


def legible(disk: SimDisk, log: StreamLog, begin: int = 0) -> tuple[dict[Entry, bytes], int]:
    """(what can be read from `begin` on, messages that cannot). Raises: AssertionError, wrong."""
    handles = StreamHandles(disk)
    found: dict[Entry, bytes] = {}
    lost = 0
    offset = max(begin, int(log.first()))
    while offset < log.committed:
        segment = log.segment_of(offset)
        assert segment is not None, "what is committed lies somewhere"
        if segment.first > offset:
            lost += int(segment.first) - offset
            offset = int(segment.first)
        job = StreamRead(handles, segment, offset)
        job.run()
        lost += int(job.lost)
        for chunk in job.found:
            for index in range(int(chunk.count)):
                at = int(chunk.first) + index
                if at < offset:
                    continue
                made = chunk.message(index, 1, 0, message(b"").origin)
                assert (made.address.exchange, made.address.routing_key) == ("ex", "key")
                assert made.raw.count(at.to_bytes(8, "big")) > 0, "its offset is in its headers"
                found[int(log.queue_id), at] = made.body()
        assert job.next > offset, "every read goes on"
        offset = int(job.next)
    handles.close()
    return found, lost


def compare(found: dict[Entry, bytes], expected: StreamExpectation) -> None:
    for entry, body in found.items():
        assert entry in expected.allowed, f"never published: {entry}"
        assert expected.allowed[entry] == body, f"altered: {entry}"


def check(image: Image, expected: StreamExpectation) -> tuple[SimDisk, dict[Entry, bytes]]:
    """Recover a crash state and compare. Raises: AssertionError for a broken law."""
    disk = SimDisk(image)
    logs, report = recovered(disk, expected.streams)
    assert not report.lost, f"damage where there is none: {report.lost}"
    everything: dict[Entry, bytes] = {}
    for number, log in logs.items():
        found, lost = legible(disk, log)
        assert not lost, f"stream {number} cannot read {lost}"
        offsets = [offset for _, offset in found]
        assert offsets == list(range(int(log.first()), int(log.committed))), "no hole"
        everything |= found
    compare(everything, expected)
    for entry in expected.required:
        assert entry in everything, f"confirmed message lost: {entry}"
    return disk, everything


class StreamWalk:
    """Every crash state of one life, or a sample; every so many a second life begins there."""

    def __init__(self, seed: int, random_count: int, second_every: int) -> None:
        self.dice = Dice(seed)
        self.random_count = random_count
        self.second_every = second_every
        self.count = 0
        self.lives = 0

    def along(self, rig: StreamRig, limit: int = 0) -> None:
        """Check the states of `rig`, at most `limit` of them at each point, 0 for all."""
        replay = Replay(rig.disk)
        expected = rig.start.copy()
        waiting = list(reversed(rig.events))
        while True:
            while waiting and waiting[-1][0] <= replay.at:
                _, kind, entries = waiting.pop()
                expected.happened(kind, entries, rig.bodies)
            for number, image in enumerate(replay.states(self.dice, self.random_count)):
                if limit and number >= limit:
                    break
                self.count += 1
                disk, found = check(image, expected)
                if self.second_every and self.count % self.second_every == 0:
                    self._second_life(disk, found, expected)
            if not replay.step():
                return

    def _second_life(
        self, disk: SimDisk, found: dict[Entry, bytes], expected: StreamExpectation
    ) -> None:
        """What came back is kept from now on; life goes on, and crashes again."""
        self.lives += 1
        start = StreamExpectation(dict(found), dict(found), set(expected.streams))
        rig = StreamRig(SimDisk(disk.contents()), set(expected.streams), start)
        for number in sorted(expected.streams):
            rig.publish(number, 3)
        rig.flush()
        again = StreamWalk(self.count, 2, 0)
        again.along(rig, 12)
        self.count += again.count
