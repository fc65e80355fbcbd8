"""Streams on a disk that may lose power, and what has to be there afterwards."""

from typing import Self

from penstock.broker.stream.stream_store import mark_of
from penstock.simulation.machine.crash import Image
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.log.roster import disown
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention, StreamLog
from penstock.streams.reading import StreamRead
from penstock.streams.recovery import StreamReport, listed, recover_streams
from tests.crash.life import (
    APPENDED,
    CONFIRMED,
    DROPPED,
    ENDED,
    MACHINE,
    Entry,
    Expectation,
    Life,
    message,
)

SEGMENT_BYTES = 1500
HISTORY_BYTES = 4000
CHUNK_BYTES = 300
"""So that some batches have several chunks of a stream."""


def retention() -> Retention:
    return Retention(SEGMENT_BYTES, HISTORY_BYTES)


def recovered(
    disk: SimDisk, streams: set[int], seed: int = 99
) -> tuple[dict[int, StreamLog], StreamReport]:
    return recover_streams(disk, Dice(seed), {number: retention() for number in streams})


class StreamRig(Life):
    """Drives one life of some streams."""

    def __init__(self, disk: SimDisk, streams: set[int], start: Expectation | None = None) -> None:
        super().__init__(disk, streams, start)
        self.handles = StreamHandles(disk)
        disown(disk)
        self.logs = recovered(disk, streams, len(self.bodies) + 1)[0]
        self.handles.roster.begin(MACHINE, listed(self.logs.values()))
        for log in self.logs.values():
            log.chunk_bytes = CHUNK_BYTES
        self.now_us = 1_700_000_000_000_000
        self.open: list[Entry] = []
        self.unsafe: list[Entry] = []
        self.dropped: list[StreamLog] = []

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
        segments = [one for log in self.logs.values() for one in log.segments]
        batch.marks = [mark_of(one) for one in segments if one.safe_to > 0]
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

    def check(self, image: Image, expected: Expectation) -> None:
        check(image, expected)

    def again(self, image: Image, expected: Expectation, seed: int) -> Self:
        """What came back is kept from now on."""
        disk, found = check(image, expected)
        start = Expectation(dict(found), dict(found), set(expected.queues))
        rig = type(self)(SimDisk(disk.contents()), set(expected.queues), start)
        for number in sorted(expected.queues):
            rig.publish(number, 3)
        rig.flush()
        return rig


def legible(disk: SimDisk, log: StreamLog, begin: int = 0) -> tuple[dict[Entry, bytes], int]:
    """(what can be read from `begin` on, messages that cannot). Raises: AssertionError, wrong."""
    handles = StreamHandles(disk)
    found: dict[Entry, bytes] = {}
    lost = 0
    offset = max(begin, int(log.first()))
    while offset < log.committed:
        segment = log.segment_of(offset)
        if segment is None:
            # The last ones, which were given their offsets.
            lost += int(log.committed) - offset
            break
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


def check(image: Image, expected: Expectation) -> tuple[SimDisk, dict[Entry, bytes]]:
    """Recover a crash state and compare. Raises: AssertionError for a broken law."""
    disk = SimDisk(image)
    logs, report = recovered(disk, expected.queues)
    assert not report.lost, f"damage where there is none: {report.lost}"
    everything: dict[Entry, bytes] = {}
    for number, log in logs.items():
        found, lost = legible(disk, log)
        assert not lost, f"stream {number} cannot read {lost}"
        offsets = [offset for _, offset in found]
        assert offsets == list(range(int(log.first()), int(log.committed))), "no hole"
        everything |= found
    expected.compare(everything)
    for entry in expected.required:
        assert entry in everything, f"confirmed message lost: {entry}"
    return disk, everything
