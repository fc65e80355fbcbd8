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
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import RECORD_BYTES
from penstock.telemetry.events import Event
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.row import as_dict
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
from penstock.telemetry.window import Trail, trail_of
from penstock.telemetry.words import kind_of

FORMAT: Final = "penstock-record"
VERSION: Final = 1
GZIP: Final = 31
UNPACKED_FACTOR: Final = 64
"""Times RECORD_BYTES that a file may unpack to: more is no record of ours, but a trap."""
DAMAGE: Final = (KeyError, TypeError, ValueError, OverflowError, msgspec.ValidationError)
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
        ("numbers", as_dict(one.numbers), {}),
        ("labels", one.labels, {}),
    ):
        if value != empty:
            plain[name] = value
    if one.times != NO_TIME:
        plain["times"] = _row(one.times)
    for name, totals in (("blocked", one.blocked), ("parked", one.parked)):
        if totals != NEVER_BLOCKED:
            *union, _ = _row(totals)
            plain[name] = [*union, [_row(block) for block in totals.blocks]]
    return plain


def _row(value: Times | BlockedTotals | BlockTotals) -> list[object]:
    return [getattr(value, name) for name in value.__slots__]


def snapshot_of(actor: str, plain: dict[str, object]) -> ActorSnapshot:
    """The snapshot that `plain` was made of.

    Raises: TypeError, ValueError or msgspec.ValidationError when it was made of none.
    """
    fields: dict[str, Any] = {"kind": kind_of(actor), **plain, "actor": actor}
    if "times" in fields:
        fields["times"] = dict(zip(Times.__slots__, fields["times"], strict=False))
    for name in ("blocked", "parked"):
        if name in fields:
            totals = dict(zip(BlockedTotals.__slots__, fields[name], strict=True))
            totals["blocks"] = [
                dict(zip(BlockTotals.__slots__, block, strict=True)) for block in totals["blocks"]
            ]
            fields[name] = totals
    return msgspec.convert(fields, ActorSnapshot)


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
    kept = list(trail.changes())
    while len(kept) > 1 and kept[1][0] <= oldest_ns:
        del kept[0]
    changes = [[at_ns, snapshot_plain(snapshot)] for at_ns, snapshot in kept]
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
        self.end = False
        self.left_out_actors = self.left_out_events = 0

    def take(self, line: bytes) -> None:
        self.line_count += 1
        if self.header is not None and line.startswith(b'{"seq"'):
            self.events.append(decode_event(line, self.line_count))
            return
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"line {self.line_count} is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise RecordError(f"line {self.line_count} is not a JSON object")
        if self.header is None:
            self.header = _header(fields)
            return
        try:
            self._part(fields)
        except (*DAMAGE, IndexError) as error:
            raise RecordError(f"line {self.line_count} is damaged: {error!r}") from error

    def _part(self, fields: dict[str, object]) -> None:
        if "history" in fields:
            self.trails = {}
            rounds = msgspec.convert(fields["rounds"], list[int])
            self.histories[str(fields["history"])] = (rounds, self.trails)
        elif "actor" in fields:
            actor, gone, changes = str(fields["actor"]), fields["gone"], fields["changes"]
            if not isinstance(changes, list) or not changes:
                raise ValueError(f"no changes of {actor}")
            pairs = [(int(at_ns), snapshot_of(actor, plain)) for at_ns, plain in changes]
            trail = trail_of(pairs)
            assert trail is not None, "looked at above"
            trail.gone_ns = msgspec.convert(gone, int | None)
            self.trails[actor] = trail
        elif "end" in fields:
            self.end = True
            self.left_out_actors = msgspec.convert(fields.get("left_out_actors", 0), int)
            self.left_out_events = msgspec.convert(fields.get("left_out_events", 0), int)

    def record(self) -> FlightRecord:
        if self.header is None:
            raise RecordError("the file is empty")
        if not self.end:
            raise RecordError("the file ends before its last line: it was not copied as a whole")
        history = FlightHistory()
        for name, part in (("fine", history.fine), ("coarse", history.coarse)):
            rounds, trails = self.histories.get(name, ([], {}))
            part.restore(rounds, trails)
        self.events.sort(key=lambda event: event.seq)
        return FlightRecord(
            self.header,
            history,
            self.events,
            self.left_out_actors,
            self.left_out_events,
        )


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
    try:
        return msgspec.convert(fields, RecordHeader)
    except msgspec.ValidationError as error:
        raise RecordError(f"the header is damaged: {error}") from error


def decode_packed(data: bytes, most: int = RECORD_BYTES.default * UNPACKED_FACTOR) -> FlightRecord:
    """The record in what a file holds, packed or not. most: bytes that it may unpack to.
    Raises: RecordError, TraceError."""
    return decode_record(_unpacked(data, most).splitlines())


def _unpacked(data: bytes, most: int) -> bytes:
    if data[:1] == b"{":
        return data
    opener = zlib.decompressobj(GZIP)
    try:
        plain = opener.decompress(data, most)
    except zlib.error as error:
        raise RecordError(f"not a flight record, which is a gzip file: {error}") from error
    if not opener.eof:
        raise RecordError("the file ends too early, or unpacks to more than any record does")
    return plain
