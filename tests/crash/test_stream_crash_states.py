"""No crash loses what a stream has confirmed, alters a byte, or brings back what never was.

A sample of the states is looked at in every run of the suite; more with PENSTOCK_CRASH_STATES.
"""

import os
from collections.abc import Callable

import pytest

from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.files import File, read_fully, write_fully
from penstock.streams import batch, recovery
from penstock.streams.batch import StreamBatch
from penstock.streams.chunk import Chunk, size_at
from penstock.streams.format import CHUNK_HEAD_BYTES
from penstock.streams.log import StreamLog
from penstock.streams.segment import StreamSegment
from tests.crash.stream_rig import Entry, StreamRig, StreamWalk, compare, legible, recovered

STATES = int(os.environ.get("PENSTOCK_CRASH_STATES", "0"))


def one_stream() -> StreamRig:
    """Small batches, a large message, segments that fill up and end."""
    rig = StreamRig(SimDisk(), {1})
    for count in (1, 2, 9, 1, 4):
        rig.publish(1, count)
        rig.flush()
    rig.publish(1, 1, 900)
    rig.flush()
    for turn in range(12):
        rig.publish(1, 40 if turn == 7 else 5)
        rig.flush()
    rig.publish(1, 2)
    return rig


def several() -> StreamRig:
    """Streams that share their batches; one is deleted."""
    rig = StreamRig(SimDisk(), {1, 2, 3})
    for turn in range(8):
        for number in (1, 2, 3):
            if number in rig.logs:
                rig.publish(number, 1 + (turn * number) % 4)
        if turn == 4:
            rig.drop(2)
        rig.flush()
    rig.publish(3, 2)
    return rig


def stopped() -> StreamRig:
    """A clean stop, and a second life behind it."""
    rig = StreamRig(SimDisk(), {1, 2})
    rig.publish(1, 6)
    rig.publish(2, 3)
    rig.flush()
    rig.publish(1, 2)
    rig.flush(is_last=True)
    first = rig.expected()
    rig = StreamRig(SimDisk(rig.disk.contents()), {1, 2}, first)
    rig.publish(1, 5)
    rig.flush()
    rig.publish(2, 4)
    rig.flush(is_last=True)
    return rig


def lazy() -> StreamRig:
    """Batches that are not synced, as in the modes interval and none, and some that are."""
    rig = StreamRig(SimDisk(), {1, 2})
    for turn in range(14):
        rig.publish(1, 3)
        if turn % 3:
            rig.publish(2, 1 + turn % 2)
        rig.flush(is_prompt=turn % 5 == 4)
    return rig


HISTORIES = {"one": one_stream, "several": several, "stopped": stopped, "lazy": lazy}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_sample_of_the_states(name: str) -> None:
    walk = StreamWalk(seed=5, random_count=2, second_every=71)
    walk.along(HISTORIES[name](), limit=12)
    assert walk.count > 100, "a history has at least so many states"
    assert walk.lives > 0, "and some of them begin a second life"


@pytest.mark.slow
@pytest.mark.skipif(not STATES, reason="takes minutes: PENSTOCK_CRASH_STATES=1000000, `make crash`")
@pytest.mark.parametrize("name", HISTORIES)
def test_all_states(name: str) -> None:
    count = 0
    seed = 0
    while count < STATES // 10:
        seed += 1
        walk = StreamWalk(seed=seed, random_count=40, second_every=29)
        walk.along(HISTORIES[name]())
        count += walk.count
    print(f"{name}: {count:,} states")


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "crashed"])
def test_any_bit_may_flip(is_stopped: bool) -> None:
    """Nothing is altered, what is lost is told, and it is one chunk at most.

    The last chunk before a crash is left out: nothing behind it says that it was safe."""
    rig = several()
    rig.flush(is_last=is_stopped)
    expected = rig.expected()
    last = {number: int(log.last_first) for number, log in rig.logs.items()}
    contents = rig.disk.contents()
    count = 0
    for name, data in sorted(contents.items()):
        for bit in range(0, len(data) * 8, 1 if STATES else 41):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            disk = SimDisk({**contents, name: bytes(flipped)})
            logs, report = recovered(disk, expected.streams)
            lost = sum(report.lost.values())
            everything: dict[Entry, bytes] = {}
            for log in logs.values():
                found, damaged = legible(disk, log)
                everything |= found
                lost += damaged
            compare(everything, expected)
            missing = [
                entry
                for entry in expected.required
                if entry not in everything and (is_stopped or entry[1] < last[entry[0]])
            ]
            assert not missing or lost, f"bit {bit} of {name}: lost without a word: {missing}"
            assert len(missing) <= 5, f"bit {bit} of {name} lost more than its chunk: {missing}"
            count += 1
    assert count > 200


def without_sync(patch: pytest.MonkeyPatch) -> None:
    """A batch is confirmed when it was written."""
    patch.setattr(StreamBatch, "sync", lambda self: None)


def without_checksum(patch: pytest.MonkeyPatch) -> None:
    """Whatever looks like a chunk is believed."""

    def chunk_at(file: File, segment: StreamSegment, at: int, end: int) -> Chunk | None:
        data = read_fully(file, at, end - at)
        size = size_at(data, 0) if len(data) >= CHUNK_HEAD_BYTES else 0
        return Chunk(data[:size], 0) if CHUNK_HEAD_BYTES <= size <= len(data) else None

    patch.setattr(recovery, "chunk_at", chunk_at)


def with_early_footer(patch: pytest.MonkeyPatch) -> None:
    """A footer is written before the chunks it speaks of are safe."""
    write = StreamBatch.write_chunks

    def both(self: StreamBatch) -> None:
        write(self)
        self.write_footers()

    patch.setattr(StreamBatch, "write_chunks", both)


def without_order(patch: pytest.MonkeyPatch) -> None:
    """A segment begins while the one before it is not safe: a tear looks like a hole."""

    def write_chunks(self: StreamBatch) -> None:
        handles = self.handles
        for deed in self.chunks:
            name = deed.segment.name
            file = handles.open(name) if deed.segment.is_created else handles.create(name)
            deed.segment.is_created = True
            write_fully(file, deed.at, deed.data)
            handles.written(name)

    patch.setattr(StreamBatch, "write_chunks", write_chunks)


def with_short_writes(patch: pytest.MonkeyPatch) -> None:
    """The last bytes of a chunk are not written."""

    def write(file: object, at: int, data: bytes) -> None:
        file.write(int(at), data[:-8])  # type: ignore[attr-defined]

    patch.setattr(batch, "write_fully", write)


def with_eager_retention(patch: pytest.MonkeyPatch) -> None:
    """Segments go while others of the stream are still wanted."""
    retain = StreamLog._retain

    def more(self: StreamLog) -> None:
        retain(self)
        if len(self.segments) > 1:
            self.removals.append(self.segments[0])

    patch.setattr(StreamLog, "_retain", more)


PLANTED: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    without_sync,
    without_checksum,
    with_early_footer,
    without_order,
    with_short_writes,
    with_eager_retention,
)


# A patch of a compiled module is not seen by its neighbours.
@pytest.mark.skipif(
    not str(batch.__file__).endswith(".py"), reason="bugs are planted in interpreted modules"
)
@pytest.mark.parametrize("plant", PLANTED)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, OSError, ValueError)):
        for history in (stopped, one_stream):
            StreamWalk(seed=5, random_count=6, second_every=0).along(history())
