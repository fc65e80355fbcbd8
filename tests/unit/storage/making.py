"""Messages and logs for the tests of the store."""

from penstock.protocol.content import Message
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.log import MessageLog
from penstock.storage.log.reading import ReadJob
from penstock.storage.recovery.recovery import recover
from tests.crash.life import message

NOW_MS = 1_700_000_000_000


def fresh(disk: SimDisk | None = None, segment_bytes: int = 4096, seed: int = 1) -> MessageLog:
    return MessageLog(disk or SimDisk(), Dice(seed), segment_bytes)


def fill(log: MessageLog, index: QueueIndex, count: int, size: int = 40) -> list[Message]:
    """Append `count` messages with the bodies b"0...", b"1..." and so on."""
    made = []
    for number in range(count):
        made.append(message(str(number).encode().ljust(size, b".")))
        log.append(index, made[-1], NOW_MS)
    return made


def filled(
    count: int, segment_bytes: int = 4096, size: int = 40
) -> tuple[SimDisk, MessageLog, QueueIndex]:
    """A disk, a log on it, and a queue with `count` messages that are safe."""
    disk = SimDisk()
    log = fresh(disk, segment_bytes)
    index = log.open_queue(1)
    fill(log, index, count, size)
    flush(log)
    return disk, log, index


def append_at(
    log: MessageLog, index: QueueIndex, position: int, one: Message, is_persistent: bool = True
) -> None:
    """Append a message at a position that the queue has not yet, as a copy has it."""
    top = int(index.next_position)
    index.next_position = position
    log.append(index, one, NOW_MS, is_persistent)
    index.next_position = max(top, position + 1)


def flush(log: MessageLog, must_sync: bool = True) -> None:
    batch = log.take_batch(must_sync)
    if batch is not None:
        batch.run()
        log.done(batch)


def read(log: MessageLog, index: QueueIndex, position: int = 1, count: int = 1000) -> ReadJob:
    job = log.plan_reads(index, position, count, 1_000_000)
    job.run()
    return job


def positions(job: ReadJob) -> list[int]:
    return [int(found.position) for found in job.found]


def brought_back(disk: SimDisk) -> list[int]:
    """The positions of queue 1 that a start after a crash would find."""
    recovered = recover(SimDisk(disk.contents()), Dice(5), 4096, {1})
    return positions(read(recovered.log, recovered.queues[1]))
