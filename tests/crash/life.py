"""One life of files on a disk that may lose power, and a walk along every crash state of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from penstock.protocol.content import Address, Message, make_content
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk

Entry = tuple[int, int]
"""(queue id, position or offset)."""

MACHINE = b"rig's on"
"""Of rosters: it runs all through a life."""
APPENDED = "appended"
GROUPED = "grouped"
CONFIRMED = "confirmed"
SETTLED = "settled"
ENDED = "ended"
DROPPED = "dropped"
REMOVED = "removed"
RECOVERED = "recovered"


def message(body: bytes) -> Message:
    """A persistent message from exchange `ex` with key `key`."""
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x10\x00\x02"
    made = make_content(1, b"", header, body, 131_072)
    made.address = Address("ex", "key")
    return made


@dataclass(slots=True)
class Expectation:
    """What a recovery must and may find. required: confirmed, and neither settled nor ended;
    allowed: everything that was handed to the log, with its bytes; queues: those that exist;
    groups: entries that come back together or not at all, without those that have left since."""

    required: dict[Entry, bytes] = field(default_factory=dict)
    allowed: dict[Entry, bytes] = field(default_factory=dict)
    queues: set[int] = field(default_factory=set)
    groups: list[dict[Entry, bytes]] = field(default_factory=list)

    def happened(self, kind: str, entries: list[Entry], bodies: dict[Entry, bytes]) -> None:
        """One event of a history. ENDED: everything of a queue before a position may be gone."""
        if kind == RECOVERED:
            self.allowed = {entry: bodies[entry] for entry in entries}
            self.groups = [one for one in self.groups if one.items() <= self.allowed.items()]
            return
        if kind == GROUPED:
            self.groups.append({entry: bodies[entry] for entry in entries})
            return
        for entry in entries:
            if kind == APPENDED:
                self.allowed[entry] = bodies[entry]
            elif kind == CONFIRMED:
                self.required[entry] = bodies[entry]
            elif kind == REMOVED:
                self.allowed.pop(entry, None)
            elif kind == SETTLED:
                self.required.pop(entry, None)
                for group in self.groups:
                    group.pop(entry, None)
            elif kind == ENDED:
                for other in [one for one in self.required if one[0] == entry[0] and one < entry]:
                    del self.required[other]
            else:
                self.queues.discard(entry[0])
                for book in (self.required, self.allowed, *self.groups):
                    for other in [other for other in book if other[0] == entry[0]]:
                        del book[other]

    def copy(self) -> "Expectation":
        groups = [dict(group) for group in self.groups]
        return Expectation(dict(self.required), dict(self.allowed), set(self.queues), groups)

    def compare(self, found: dict[Entry, bytes]) -> None:
        """Raises: AssertionError for what was never published, or is altered."""
        for entry, body in found.items():
            assert entry in self.allowed, f"never published: {entry}"
            assert self.allowed[entry] == body, f"altered: {entry}"


class Life:
    """Writes down what has happened, by the number of disk operations that were done before.
    start: what was expected at its beginning; bodies: of everything that was ever published."""

    def __init__(self, disk: SimDisk, queues: set[int], start: Expectation | None) -> None:
        self.disk = disk
        self.start = start or Expectation(queues=set(queues))
        self.events: list[tuple[int, str, list[Entry]]] = []
        self.bodies: dict[Entry, bytes] = dict(self.start.allowed)

    def note(self, kind: str, entries: list[Entry]) -> None:
        self.events.append((len(self.disk.ops), kind, entries))

    def expected(self) -> Expectation:
        """What has to be there after everything that has happened."""
        found = self.start.copy()
        for _, kind, entries in self.events:
            found.happened(kind, entries, self.bodies)
        return found

    def check(self, image: Image, expected: Expectation) -> None:
        """Recover a crash state and compare. Raises: AssertionError for a broken law."""
        raise NotImplementedError

    def again(self, image: Image, expected: Expectation, seed: int) -> Self:
        """Recover a crash state and go on: a second life, of which the crash states are looked at
        as well."""
        raise NotImplementedError


class Walk:
    """Every crash state of one life. count: states looked at; random_count: drawn at each point;
    second_every: every so many states a second life begins there, 0 for never."""

    def __init__(self, seed: int, random_count: int, second_every: int = 0) -> None:
        self.dice = Dice(seed)
        self.random_count = random_count
        self.second_every = second_every
        self.count = 0
        self.lives = 0

    def along(self, life: Life, limit: int = 0) -> None:
        """Check the states of `life`, at most `limit` of them at each point, 0 for all."""
        replay = Replay(life.disk)
        expected = life.start.copy()
        waiting = list(reversed(life.events))
        while True:
            while waiting and waiting[-1][0] <= replay.at:
                _, kind, entries = waiting.pop()
                expected.happened(kind, entries, life.bodies)
            for number, image in enumerate(replay.states(self.dice, self.random_count)):
                if limit and number >= limit:
                    break
                self.count += 1
                try:
                    life.check(image, expected)
                    if self.second_every and self.count % self.second_every == 0:
                        self._live_again(life, image, expected)
                except Exception as error:
                    raise AssertionError(
                        f"after operation {replay.at}, state {number}: {error!r}"
                    ) from error
            if not replay.step():
                return

    def _live_again(self, life: Life, image: Image, expected: Expectation) -> None:
        self.lives += 1
        second = life.again(image, expected, self.count)
        walk = Walk(self.count, 2)
        walk.along(second, limit=12)
        self.count += walk.count


def flips(image: Image, every: int) -> Iterator[tuple[str, Image]]:
    """Every `every`-th bit of every file turned over: which it is, and all files with it."""
    for name, data in sorted(image.items()):
        for bit in range(0, len(data) * 8, every):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            yield f"bit {bit} of {name}", {**image, name: bytes(flipped)}
