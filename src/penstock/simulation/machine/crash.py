"""The states in which a loss of power may leave a disk, made from the record of what was done to
it.

A file that was synced has what was written before; its name is there if the directory was synced
since. Of everything later any part may be there: whole writes or pieces of them, in any order, as
zeros, or as what another file had on those blocks. Where bytes are written over, what is not there
is what was there before, sector by sector. A state is a dictionary of names and bytes.
"""

from collections.abc import Callable, Iterator

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import (
    CREATE,
    REMOVE,
    RENAME,
    SYNC,
    SYNC_DIRECTORY,
    TRUNCATE,
    WRITE,
    Op,
    SimDisk,
)

Image = dict[str, bytes]

SECTOR_BYTES = 64
"""What reaches a disk in one piece here: small, so that small records are torn."""
DISK_SECTOR_BYTES = 512
"""What reaches a real one in one piece, at multiples of it."""


class ReplayedFile:
    """One file during the replay. safe: its bytes when it was last synced; later: writes and cuts
    since then, in order."""

    __slots__ = ("later", "safe")

    def __init__(self, safe: bytes) -> None:
        self.safe = safe
        self.later: list[Op] = []


Content = Callable[[ReplayedFile], bytes]


class Replay:
    """Walks along the record of a disk; `states` are those of a crash just there."""

    def __init__(self, disk: SimDisk) -> None:
        self._ops = disk.ops
        self._at = 0
        self._nodes: dict[int, ReplayedFile] = {}
        self._safe_names: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._name_ops: list[Op] = []
        self._stale = b""
        for number, (name, data) in enumerate(disk.image.items()):
            self._nodes[number] = ReplayedFile(data)
            self._safe_names[name] = number
            self._names[name] = number

    @property
    def at(self) -> int:
        """How many operations were done."""
        return self._at

    def step(self) -> bool:
        """Do one more operation; False when there is none."""
        if self._at == len(self._ops):
            return False
        op = self._ops[self._at]
        self._at += 1
        if op.kind in (WRITE, TRUNCATE):
            self._nodes[op.node].later.append(op)
        elif op.kind == SYNC:
            node = self._nodes[op.node]
            node.safe = _apply(node.safe, node.later)
            node.later = []
            if len(node.safe) > len(self._stale):
                self._stale = node.safe
        elif op.kind == SYNC_DIRECTORY:
            self._safe_names = dict(self._names)
            self._name_ops = []
        else:
            if op.kind == CREATE:
                self._nodes[op.node] = ReplayedFile(b"")
            _rename(self._names, op)
            self._name_ops.append(op)
        return True

    def certain(self) -> Image:
        """What is there whatever happens: names and bytes that were synced."""
        return self._image(self._safe_names, self._safe_bytes)

    def states(self, dice: Dice, random_count: int) -> Iterator[Image]:
        """Crash states at this point, each once: the tidy ones, and `random_count` drawn ones."""
        seen: set[int] = set()
        for image in self._all_states(dice, random_count):
            key = hash(frozenset(image.items()))
            if key not in seen:
                seen.add(key)
                yield image

    def _all_states(self, dice: Dice, random_count: int) -> Iterator[Image]:
        for names in self._name_choices():
            yield self._image(names, self._safe_bytes)
            yield self._image(names, self._all_bytes)
        yield self._image(self._names, self._zero_bytes)
        yield self._image(self._names, self._stale_bytes)
        yield from self._torn()
        yield from self._sectors(dice)
        for _ in range(random_count):
            yield self._random(dice)

    def _name_choices(self) -> list[dict[str, int]]:
        """Nothing since the directory was synced, everything, all but one, only one."""
        ops = self._name_ops
        choices: list[list[Op]] = [[], ops]
        if len(ops) > 1:
            for index in range(len(ops)):
                choices.append(ops[:index] + ops[index + 1 :])
                choices.append([ops[index]])
        return [self._named(chosen) for chosen in choices]

    def _named(self, ops: list[Op]) -> dict[str, int]:
        names = dict(self._safe_names)
        for op in ops:
            _rename(names, op)
        return names

    def _image(self, names: dict[str, int], content: Content) -> Image:
        return {name: content(self._nodes[number]) for name, number in names.items()}

    def _safe_bytes(self, node: ReplayedFile) -> bytes:
        return node.safe

    def _all_bytes(self, node: ReplayedFile) -> bytes:
        return _apply(node.safe, node.later)

    def _zero_bytes(self, node: ReplayedFile) -> bytes:
        """The size has grown, the bytes have not come."""
        if not node.later:
            return node.safe
        whole = _apply(node.safe, node.later)
        return node.safe[: len(whole)] + bytes(max(len(whole) - len(node.safe), 0) + 48)

    def _stale_bytes(self, node: ReplayedFile) -> bytes:
        """The size has grown, and the blocks still have what another file left there."""
        if not node.later:
            return node.safe
        whole = _apply(node.safe, node.later)
        return node.safe[: len(whole)] + self._stale[len(node.safe) : len(whole)]

    def _torn(self) -> Iterator[Image]:
        """All writes of one file, one of them cut, left out, or without one of its sectors."""
        base = self._image(self._names, self._all_bytes)
        for name, number in self._names.items():
            node = self._nodes[number]
            for index, op in enumerate(node.later):
                if op.kind != WRITE:
                    continue
                before, after = node.later[:index], node.later[index + 1 :]
                for later in (before + after, [op]):
                    yield base | {name: _apply(node.safe, later)}
                for cut in _cuts(op):
                    yield base | {name: _apply(node.safe, [*before, cut])}
                    yield base | {name: _apply(node.safe, [*before, cut, *after])}
                for hole in range(0, len(op.data), SECTOR_BYTES):
                    pieces = [_piece(op, 0, hole), _piece(op, hole + SECTOR_BYTES, len(op.data))]
                    yield base | {name: _apply(node.safe, [*before, *pieces, *after])}

    def _sectors(self, dice: Dice) -> Iterator[Image]:
        """Everything that was done to one file, in some of its sectors only; elsewhere it is as it
        was safe, whether it has become longer or shorter meanwhile."""
        base = self._image(self._names, self._all_bytes)
        for name, number in self._names.items():
            node = self._nodes[number]
            if not node.later:
                continue
            for size in (SECTOR_BYTES, DISK_SECTOR_BYTES):
                count = -(-max(len(node.safe), len(base[name])) // size)
                first = next(
                    (n for n in range(count) if _differs(node.safe, base[name], n, size)), 0
                )
                for here in (
                    {first},
                    set(range(count)) - {first},
                    set(range(0, count, 2)),
                    set(range(1, count, 2)),
                    {n for n in range(count) if dice.happens(50)},
                ):
                    yield base | {name: _mixed(node.safe, base[name], here, size)}

    def _random(self, dice: Dice) -> Image:
        names = self._named([op for op in self._name_ops if dice.happens(60)])
        return {
            name: self._random_bytes(self._nodes[number], dice) for name, number in names.items()
        }

    def _random_bytes(self, node: ReplayedFile, dice: Dice) -> bytes:
        if not node.later:
            return node.safe
        kept: list[Op] = []
        share = dice.one_of((15, 50, 85, 97))
        for op in node.later:
            if op.kind == TRUNCATE:
                if dice.happens(share):
                    kept.append(op)
                continue
            for start in range(0, len(op.data), SECTOR_BYTES):
                if dice.happens(share):
                    kept.append(_piece(op, start, start + SECTOR_BYTES))
        data = _apply(node.safe, kept)
        if dice.happens(20):
            data += bytes(dice.below(100))
        elif dice.happens(20):
            data += self._stale[len(data) : len(data) + dice.below(400)]
        if len(data) > len(node.safe) and dice.happens(30):
            data = data[: dice.between(len(node.safe), len(data))]
        return data


def _rename(names: dict[str, int], op: Op) -> None:
    if op.kind == CREATE:
        names[op.name] = op.node
    elif op.kind == REMOVE:
        if names.get(op.name) == op.node:
            del names[op.name]
    elif op.kind == RENAME and names.get(op.name) == op.node:
        names[op.new_name] = names.pop(op.name)


def _apply(data: bytes, ops: list[Op]) -> bytes:
    if not ops:
        return data
    held = bytearray(data)
    for op in ops:
        if op.kind == TRUNCATE:
            del held[op.at :]
            held.extend(bytes(op.at - len(held)))
        elif op.data:
            if op.at > len(held):
                held.extend(bytes(op.at - len(held)))
            held[op.at : op.at + len(op.data)] = op.data
    return bytes(held)


def _differs(old: bytes, new: bytes, sector: int, size: int) -> bool:
    start, stop = sector * size, (sector + 1) * size
    return old[start:stop] != new[start:stop]


def _mixed(old: bytes, new: bytes, is_new: set[int], size: int) -> bytes:
    """`new` in the sectors `is_new`, `old` in the others, as long as the longer one."""
    held = bytearray(old.ljust(len(new), b"\0"))
    for sector in is_new:
        start, stop = sector * size, (sector + 1) * size
        held[start : start + len(new[start:stop])] = new[start:stop]
    return bytes(held)


def _piece(op: Op, start: int, stop: int) -> Op:
    return Op(WRITE, op.node, op.at + start, op.data[start:stop])


def _cuts(op: Op) -> list[Op]:
    size = len(op.data)
    ends = {1, 4, 12, 30, size // 2, size - 30, size - 1} | set(range(0, size, SECTOR_BYTES))
    return [_piece(op, 0, end) for end in sorted(ends) if 0 < end < size]
