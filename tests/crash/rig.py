"""A message log on a disk that may lose power, and what has to be there afterwards."""

from typing import Self

from penstock.simulation.machine.crash import Image
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SYNC_DIRECTORY, SimDisk
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Segment
from penstock.storage.layout.stored import Stored
from penstock.storage.log.batch import Batch
from penstock.storage.log.compaction import Compactor
from penstock.storage.log.groups import GroupAppend, GroupEntry, group_bytes
from penstock.storage.log.log import MessageLog
from penstock.storage.log.roster import disown
from penstock.storage.recovery import recovery
from penstock.storage.recovery.recovery import Recovered
from tests.crash.life import (
    APPENDED,
    CONFIRMED,
    DROPPED,
    GROUPED,
    MACHINE,
    RECOVERED,
    REMOVED,
    SETTLED,
    Entry,
    Expectation,
    Life,
    flips,
    message,
)


class Rig(Life):
    """Drives one life of a log. homes: the only segment that has an entry, where that is known."""

    def __init__(
        self,
        disk: SimDisk,
        queues: set[int],
        segment_bytes: int = 700,
        start: Expectation | None = None,
        seed: int = 1,
        spares_max: int = 2,
    ) -> None:
        super().__init__(disk, queues, start)
        self.segment_bytes = segment_bytes
        self.dice = Dice(seed)
        disown(disk)
        recovered = recovery.recover(disk, self.dice, segment_bytes, queues, spares_max=spares_max)
        recovered.log.handles.roster.begin(MACHINE, recovery.listed(recovered.log, disk))
        self.recovered = recovered
        self.log: MessageLog = recovered.log
        self.queues: dict[int, QueueIndex] = recovered.queues
        self.compactor = Compactor(self.log)
        self._open: list[Entry] = []
        self._settled: set[Entry] = set()
        self._taken: dict[Batch, list[Entry]] = {}
        self._take_count = 0
        self.homes: dict[Entry, Segment] = {}
        self._leaving: list[Entry] = []

    def publish(self, *queue_ids: int, size: int = 40, text: str = "") -> list[Entry]:
        """One message to some queues."""
        number = len(self.bodies)
        body = f"{text}{number}:".encode() + bytes((number + n) % 251 for n in range(size))
        made = message(body)
        made.stored = stored = Stored()
        entries: list[Entry] = []
        for queue_id in queue_ids:
            stored.join(queue_id)
        for queue_id in queue_ids:
            index = self.queues[queue_id]
            entry = (queue_id, int(index.next_position))
            self.log.append_all(index, [made], 1_700_000_000_000)
            assert index.tail is not None, "it has just got an entry"
            self.homes[entry] = index.tail.table.segment
            self.bodies[entry] = body
            entries.append(entry)
        self.note(APPENDED, entries)
        self._open += entries
        return entries

    def publish_group(self, *targets: tuple[int, ...], size: int = 40) -> list[Entry]:
        """One message for each of `targets`, queues, which belong together."""
        entries: list[Entry] = []
        made: list[GroupEntry] = []
        added: dict[int, int] = {}
        for queue_ids in targets:
            number = len(self.bodies)
            body = f"{number}g:".encode() + bytes((number + n) % 251 for n in range(size))
            one = message(body)
            for queue_id in queue_ids:
                index = self.queues[queue_id]
                entry = (queue_id, int(index.next_position) + added.get(queue_id, 0))
                added[queue_id] = added.get(queue_id, 0) + 1
                self.bodies[entry] = body
                entries.append(entry)
                made.append(GroupEntry(index, one, True))
        group = GroupAppend(self.log, made, group_bytes(made), 1_700_000_000_000)
        while group.step(2):
            pass
        self.note(APPENDED, entries)
        self.note(GROUPED, entries)
        self._open += entries
        return entries

    def take(self, must_sync: bool = True) -> Batch | None:
        """The open batch, not yet run; every third leaves acknowledgements to a later one."""
        self._take_count += 1
        batch = self.log.take_batch(must_sync, self._take_count % 3 != 0)
        if batch is not None:
            self._taken[batch] = self._open if must_sync else []
        if must_sync or batch is None:
            self._open = []
        return batch

    def run(self, batch: Batch | None) -> None:
        """Run a batch and confirm what is in it."""
        if batch is None:
            return
        before = len(self.disk.ops)
        batch.run()
        self.log.done(batch)
        entries = [entry for entry in self._taken.pop(batch) if entry not in self._settled]
        self.note(CONFIRMED, entries)
        self._leave(batch, before)

    def _leave(self, batch: Batch, before: int) -> None:
        """What was in a file whose name is gone for good never comes back."""
        copying = self.compactor.copying
        if copying is not None:
            for entry in [key for key, home in self.homes.items() if home is copying.segment]:
                del self.homes[entry]
        gone = set(batch.removals)
        self._leaving += [entry for entry, segment in self.homes.items() if segment in gone]
        if any(op.kind == SYNC_DIRECTORY for op in self.disk.ops[before:]):
            self.note(REMOVED, self._leaving)
            for entry in self._leaving:
                self.homes.pop(entry, None)
            self._leaving = []

    def flush(self, must_sync: bool = True) -> None:
        self.run(self.take(must_sync))

    def settle(self, queue_id: int, *positions: int) -> None:
        """Those one behind the other at once, as a consumer that acknowledges several does it."""
        index = self.queues[queue_id]
        at = 0
        while at < len(positions):
            end = at + 1
            while end < len(positions) and positions[end] == positions[end - 1] + 1:
                end += 1
            if end - at > 1:
                self.log.settle_run(index, positions[at], positions[end - 1])
            else:
                self.log.settle(index, positions[at])
            at = end
        self._settled.update((queue_id, position) for position in positions)
        self.note(SETTLED, [(queue_id, position) for position in positions])

    def purge(self, queue_id: int, below: int) -> None:
        entries = [key for key in self.bodies if key[0] == queue_id and key[1] < below]
        self.log.settle_below(self.queues[queue_id], below)
        self._settled.update(entries)
        self.note(SETTLED, entries)

    def drop(self, queue_id: int) -> None:
        self.log.drop_queue(self.queues.pop(queue_id))
        self.note(DROPPED, [(queue_id, 0)])

    def compact(self, bytes_max: int = 200) -> int:
        """Compact until there is nothing to do, syncing no more than the compactor asks for.

        Returns how many slices were copied."""
        count = 0
        while True:
            job = self.compactor.plan(bytes_max)
            if job is not None:
                job.run()
                self.compactor.copy(job)
                count += 1
            if not self.log.has_work():
                return count
            self.flush(must_sync=False)

    def stop(self) -> None:
        """A clean end."""
        batch = self.log.take_last_batch()
        self._taken[batch] = self._open
        self.run(batch)

    def check(self, image: Image, expected: Expectation) -> None:
        check(image, expected, self.segment_bytes)

    def again(self, image: Image, expected: Expectation, seed: int) -> Self:
        rig = type(self)(
            SimDisk(image), expected.queues, self.segment_bytes, expected.copy(), seed=seed
        )
        begun: dict[Entry, bytes] = {}
        for queue_id in expected.queues:
            begun |= contents(rig.recovered, queue_id)
        # Until the cut is safe, what was torn may still come back whole; afterwards never again.
        rig.note(RECOVERED, list(begun))
        for queue_id in sorted(expected.queues):
            rig.publish(queue_id, text="again")
        rig.flush()
        for queue_id in sorted(expected.queues):
            first = int(rig.queues[queue_id].first_position())
            rig.settle(queue_id, first)
            rig.publish(queue_id, size=200, text="more")
        rig.flush()
        return rig


def contents(recovered: Recovered, queue_id: int) -> dict[Entry, bytes]:
    """What can be read of a queue, by position. Raises: AssertionError if not all of it can."""
    found, damaged = legible(recovered, queue_id)
    assert not damaged, f"queue {queue_id} cannot read {damaged}"
    assert len(found) == recovered.log.live_count(recovered.queues[queue_id])
    return found


def legible(recovered: Recovered, queue_id: int) -> tuple[dict[Entry, bytes], list[int]]:
    """(what can be read of a queue, positions that cannot). Raises: AssertionError, wrong order."""
    index = recovered.queues[queue_id]
    found: dict[Entry, bytes] = {}
    damaged: list[int] = []
    position = 1
    while True:
        job = recovered.log.plan_reads(index, position, 7, 100_000)
        job.run()
        damaged += job.damaged
        if not job.found and not job.damaged:
            return found, damaged
        for each in job.found:
            assert each.position >= position, "positions ascend"
            position = int(each.position) + 1
            assert each.message.address.exchange == "ex", "the address is that of the message"
            assert each.message.address.routing_key == "key", "the address is that of the message"
            found[queue_id, int(each.position)] = each.message.body()
        position = int(job.next_position)


def check(image: Image, expected: Expectation, segment_bytes: int = 700) -> Recovered:
    """Recover a crash state and compare. Raises: AssertionError for a broken law."""
    recovered = recovered_from(image, expected.queues, segment_bytes)
    assert not recovered.report.lost, f"damage where there is none: {recovered.report.lost}"
    found: dict[Entry, bytes] = {}
    for queue_id in expected.queues:
        found |= contents(recovered, queue_id)
    for entry in expected.required:
        assert entry in found, f"confirmed message lost: {entry}"
    expected.compare(found)
    for group in expected.groups:
        there = [entry for entry, body in group.items() if found.get(entry) == body]
        assert len(there) in (0, len(group)), f"a part of a group: {there} of {list(group)}"
    return recovered


def recovered_from(image: Image, queues: set[int], segment_bytes: int) -> Recovered:
    return recovery.recover(SimDisk(image), Dice(99), segment_bytes, queues)


def check_flips(rig: Rig, every: int = 1, is_stopped: bool = True) -> int:
    """Turn over every `every`-th bit of every file after a clean stop, or after a crash: nothing is
    altered, what is lost is one message and is told, everything else is there.

    Returns how many states that were. The last message before a crash is left out: nothing behind
    it says that it was safe, so that it may as well be torn.
    """
    if is_stopped:
        rig.stop()
    else:
        rig.publish(min(rig.queues))
        rig.flush(must_sync=False)
    expected = rig.expected()
    count = 0
    for which, image in flips(rig.disk.contents(), every):
        count += 1
        try:
            _check_flip(image, expected, rig.segment_bytes)
        except Exception as error:
            raise AssertionError(f"{which}: {error!r}") from error
    return count


def _check_flip(image: Image, expected: Expectation, segment_bytes: int) -> None:
    recovered = recovered_from(image, expected.queues, segment_bytes)
    found: dict[Entry, bytes] = {}
    told = bool(recovered.report.lost)
    for queue_id in expected.queues:
        legibles, damaged = legible(recovered, queue_id)
        found |= legibles
        told = told or bool(damaged)
    expected.compare(found)
    missing = [entry for entry in expected.required if entry not in found]
    assert not missing or told, f"lost without a word: {missing}"
    bodies = {expected.required[entry] for entry in missing}
    assert len(bodies) <= 1, f"one bit lost more than one message: {missing}"
