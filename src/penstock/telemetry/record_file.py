"""Flight records: what a broker's recorder knew at one moment, as a file to ask offline.

Lines of JSON. First the header: {"format":"penstock-record","version":1, ...} with the fields of
RecordHeader. Then for each history (`fine`, `coarse`)
    {"history":NAME,"rounds":[ns, ...]}
    {"actor":ID,"gone":ns or null,"changes":[[round ns, SNAPSHOT], ...]}     one line an actor
then {"events":COUNT} and so many lines as in event files (telemetry/trace), newest groups first,
and last {"end":true,"left_out_actors":N,"left_out_events":N}. A file without its end is damaged.
A SNAPSHOT has the fields of ActorSnapshot, without actor and kind where they repeat, and without
those that are empty. Message bodies are never in it, since nothing it is made of has any.

Writers compress the lines. Unknown fields are ignored, other versions are refused.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock.base.errors import OperatorError
from penstock.telemetry.events import Event
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import (
    NEVER_BLOCKED,
    NO_TIME,
    NOT_TAKEN,
    NS_PER_S,
    ActorSnapshot,
    BlockedTotals,
    BlockTotals,
    Times,
)
from penstock.telemetry.trace import decode_event, encode_events
from penstock.telemetry.window import Trail, WindowHistory
from penstock.telemetry.words import kind_of

FORMAT: Final = "penstock-record"
VERSION: Final = 1
EVENTS_PER_PIECE: Final = 500
"""Events encoded in one go; between two pieces the writer may pause."""


def snapshot_plain(one: ActorSnapshot) -> dict[str, object]:
    """What is not empty, by field; times and blocks as lists in the order of their fields."""
    plain: dict[str, object] = {}
    if one.kind != kind_of(one.actor):
        plain["kind"] = one.kind
    for name, value, empty in (
        ("state", one.state, ""),
        ("started_ns", one.started_ns, 0),
        ("taken_ns", one.taken_ns, NOT_TAKEN),
        ("numbers", one.numbers, {}),
        ("labels", one.labels, {}),
    ):
        if value != empty:
            plain[name] = value
    if one.times != NO_TIME:
        times = one.times
        plain["times"] = [times.idle_ns, times.busy_ns, times.blocked_ns, times.waiting_ns]
    if one.blocked != NEVER_BLOCKED:
        plain["blocked"] = _blocked_plain(one.blocked)
    return plain


def _blocked_plain(all_: BlockedTotals) -> list[object]:
    blocks = [
        [b.peer, b.reason, b.ns, b.closed_ns, b.stops, b.longest_ns, b.since_ns, b.first_ns]
        for b in all_.blocks
    ]
    return [all_.blocked_ns, all_.stops, all_.longest_ns, all_.since_ns, blocks]


def snapshot_of(actor: str, plain: dict[str, object]) -> ActorSnapshot:
    """The snapshot that `plain` was made of.

    Raises: KeyError, TypeError or ValueError when it was made of none.
    """
    blocked = plain.get("blocked")
    times = plain.get("times")
    return ActorSnapshot(
        actor,
        str(plain.get("kind", kind_of(actor))),
        str(plain.get("state", "")),
        _whole(plain.get("started_ns", 0)),
        NO_TIME if times is None else Times(*(_whole(ns) for ns in _list(times))),
        NEVER_BLOCKED if blocked is None else _blocked_of(_list(blocked)),
        {str(key): _number(value) for key, value in _dict(plain.get("numbers", {})).items()},
        {str(key): str(value) for key, value in _dict(plain.get("labels", {})).items()},
        _whole(plain.get("taken_ns", NOT_TAKEN)),
    )


def _blocked_of(fields: list[object]) -> BlockedTotals:
    blocked_ns, stops, longest_ns, since_ns, blocks = fields
    return BlockedTotals(
        _whole(blocked_ns),
        _whole(stops),
        _whole(longest_ns),
        None if since_ns is None else _whole(since_ns),
        tuple(_block_of(_list(block)) for block in _list(blocks)),
    )


def _block_of(fields: list[object]) -> BlockTotals:
    peer, reason, ns, closed_ns, stops, longest_ns, since_ns, first_ns = fields
    return BlockTotals(
        str(peer),
        str(reason),
        _whole(ns),
        _whole(closed_ns),
        _whole(stops),
        _whole(longest_ns),
        None if since_ns is None else _whole(since_ns),
        _whole(first_ns),
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _dict(value: object) -> dict[object, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


class RecordError(OperatorError):
    """The file cannot be read as a flight record; the text says why."""


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """node, boot_id, penstock, wall_ns, mono_ns: as in TraceHeader, wall_ns and mono_ns being the
    moment it was taken; profile: flow profile; why: what it was taken for, in words; last_s: how
    far back it was asked to reach; recorded, dropped: events of this run of the broker, and those
    that had left the ring; config: in effect, without secrets; settings: as they stood."""

    node: str
    boot_id: str
    wall_ns: int
    mono_ns: int
    penstock: str
    profile: str
    why: str
    last_s: float
    recorded: int = 0
    dropped: int = 0
    config: dict[str, object] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """A record that was read. left_out_*: what did not fit into it."""

    header: RecordHeader
    history: FlightHistory
    events: list[Event]
    left_out_actors: int
    left_out_events: int

    def wall_at(self, t_ns: int) -> int:
        """Wall-clock nanoseconds of the monotonic time `t_ns`."""
        return self.header.wall_ns + t_ns - self.header.mono_ns


class Encoder:
    """The lines of one record, piece by piece. history: owned by this from now on; events: oldest
    first. `is_full` is set by the writer when no more fits: what is left is then counted."""

    def __init__(self, header: RecordHeader, history: FlightHistory, events: list[Event]) -> None:
        self.header = header
        self.history = history
        self.is_full = False
        self._events = events

    def pieces(self) -> Iterator[bytes]:
        """Whole lines, a few milliseconds of work at a time."""
        header = {name: getattr(self.header, name) for name in RecordHeader.__slots__}
        yield _line({"format": FORMAT, "version": VERSION, **header})
        newest_ns = self.history.newest_ns() or 0
        since_ns = newest_ns - round(self.header.last_s * NS_PER_S)
        left_out = 0
        for name, history in (("fine", self.history.fine), ("coarse", self.history.coarse)):
            rounds = [at_ns for at_ns in history.rounds() if at_ns >= since_ns]
            yield _line({"history": name, "rounds": rounds})
            for actor, trail in history.trails() if rounds else ():
                if trail.gone_ns is not None and trail.gone_ns <= rounds[0]:
                    continue
                if self.is_full:
                    left_out += 1
                    continue
                yield _line(_trail(actor, trail, rounds[0]))
        events = [event for event in self._events if event.t_ns >= since_ns]
        written = 0
        while written < len(events) and not self.is_full:
            stop = len(events) - written
            piece = events[max(0, stop - EVENTS_PER_PIECE) : stop]
            yield encode_events(piece)
            written += len(piece)
        yield _line(
            {"end": True, "left_out_actors": left_out, "left_out_events": len(events) - written}
        )


def _trail(actor: str, trail: Trail, oldest_ns: int) -> dict[str, object]:
    kept = trail.copy()
    kept.trim(oldest_ns)
    changes = [[at_ns, snapshot_plain(snapshot)] for at_ns, snapshot in kept.changes]
    return {"actor": actor, "gone": trail.gone_ns, "changes": changes}


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


# -- reading -------------------------------------------------------------------------------------


def decode_record(lines: Iterable[bytes]) -> FlightRecord:
    """The record on these lines. Raises: RecordError, TraceError."""
    reader = _Reader()
    for line in lines:
        if line.strip():
            reader.take(line)
    return reader.record()


class _Reader:
    """Puts a record together, line by line."""

    def __init__(self) -> None:
        self.line_count = 0
        self.header: RecordHeader | None = None
        self.histories: dict[str, tuple[list[int], dict[str, Trail]]] = {}
        self.trails: dict[str, Trail] = {}
        self.events: list[Event] = []
        self.end: dict[str, object] | None = None

    def take(self, line: bytes) -> None:
        self.line_count += 1
        if self.header is not None and line.startswith(b'{"seq"'):
            event = decode_event(line, self.line_count)
            self.events.append(event)
            return
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise RecordError(f"line {self.line_count} is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise RecordError(f"line {self.line_count} is not a JSON object")
        if self.header is None:
            self.header = _header(fields)
            return
        try:
            self._part(fields)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RecordError(f"line {self.line_count} is damaged: {error!r}") from error

    def _part(self, fields: dict[str, object]) -> None:
        if "history" in fields:
            self.trails = {}
            self.histories[str(fields["history"])] = (_whole_numbers(fields["rounds"]), self.trails)
        elif "actor" in fields:
            actor, gone, changes = str(fields["actor"]), fields["gone"], fields["changes"]
            if not isinstance(changes, list) or not changes:
                raise ValueError(f"no changes of {actor}")
            pairs = [(int(at_ns), snapshot_of(actor, plain)) for at_ns, plain in changes]
            self.trails[actor] = Trail(pairs, None if gone is None else int(str(gone)))
        elif "end" in fields:
            self.end = fields

    def record(self) -> FlightRecord:
        if self.header is None:
            raise RecordError("the file is empty")
        if self.end is None:
            raise RecordError("the file ends before its last line: it was not copied as a whole")
        history = FlightHistory()
        for name, part in (("fine", history.fine), ("coarse", history.coarse)):
            rounds, trails = self.histories.get(name, ([], {}))
            _restore(part, rounds, trails)
        self.events.sort(key=lambda event: event.seq)
        return FlightRecord(
            self.header,
            history,
            self.events,
            int(str(self.end.get("left_out_actors", 0))),
            int(str(self.end.get("left_out_events", 0))),
        )


def _restore(history: WindowHistory, rounds: list[int], trails: dict[str, Trail]) -> None:
    history.restore(rounds, trails)


def _whole_numbers(value: object) -> list[int]:
    if not isinstance(value, list):
        raise TypeError("not a list of numbers")
    return [int(one) for one in value]


def _header(fields: dict[str, object]) -> RecordHeader:
    if fields.get("format") != FORMAT:
        raise RecordError(
            f'not a flight record: its first line does not say "format":"{FORMAT}"; records are '
            "written by `penstock record save`"
        )
    if fields.get("version") != VERSION:
        raise RecordError(
            f"a flight record of version {fields.get('version')!r}, and this penstock reads "
            f"version {VERSION}; read it with the penstock that wrote it, {fields.get('penstock')}"
        )
    known = {name: fields[name] for name in RecordHeader.__slots__ if name in fields}
    try:
        return RecordHeader(**known)  # type: ignore[arg-type]  # checked by what is missing only
    except TypeError as error:
        raise RecordError(f"the header is damaged: {error}") from error
