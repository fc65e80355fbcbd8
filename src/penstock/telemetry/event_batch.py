"""A batch of flow events by the column: what a message of `amq.flow.telemetry` has as its body.

All numbers are little-endian, without padding.

    8 bytes      "PSTKEV", version as two digits
    u32 x 4      events n, time samples t, count samples c, names m
    i64 x 2      wall_ns, mono_ns: two readings of one instant, as in TraceHeader
    i64[n] x 3   seq, t_ns, amount
    u32[n] x 4   kind, actor, peer, reason: places among the names
    u32[t], i64[t] x 4   which of the events are time samples; TIME_FIELDS of each
    u32[c], i64[c] x 8   which are samples of counts; COUNT_FIELDS of each, paged
    u32[m + 1]   where each name begins in the text, and where the last ends
    the text     UTF-8

The first three names are the node, its boot id and the version of Penstock. Events are in the order
of their sequences, of one boot; a `dropped` event accounts for what is missing between two batches.
Half a character, which no text can hold, becomes a question mark, and a number beyond 64 bits the
nearest that is not. A version that differs is refused. This module is compiled.
"""

import struct
from typing import Final

from penstock.telemetry.events import (
    COUNT_FIELDS,
    KIND_NAMES,
    TIME_FIELDS,
    CountSample,
    Event,
    TimeSample,
    kind_named,
)
from penstock.telemetry.trace import TraceError, TraceHeader

MAGIC: Final = b"PSTKEV01"
HEAD: Final = struct.Struct("<8sIIIIqq")
HEADER_NAMES: Final = 3
"""Names in front that belong to the header."""

SAMPLE_COLUMNS: Final = (*COUNT_FIELDS, "paged")
I64_BYTES: Final = 8
U32_BYTES: Final = 4
_HIGHEST: Final = (1 << 63) - 1
_LOWEST: Final = -(1 << 63)


class Section:
    """One array of a batch. name: of the column; at: where it begins, bytes; count: of numbers;
    is_wide: whether they are i64, else u32."""

    __slots__ = ("at", "count", "is_wide", "name")

    def __init__(self, name: str, at: int, count: int, is_wide: bool) -> None:
        self.name = name
        self.at = at
        self.count = count
        self.is_wide = is_wide


class Layout:
    """Where everything is in one batch. events, wall_ns, mono_ns: of its head; sections: in order;
    text_at: where the text of the names begins."""

    __slots__ = ("events", "mono_ns", "sections", "text_at", "wall_ns")

    def __init__(
        self, events: int, wall_ns: int, mono_ns: int, sections: list[Section], text_at: int
    ) -> None:
        self.events = events
        self.wall_ns = wall_ns
        self.mono_ns = mono_ns
        self.sections = sections
        self.text_at = text_at


def encode_batch(header: TraceHeader, events: list[Event]) -> bytes:
    """The batch of `events`, which are of one boot and in order."""
    places: dict[str, int] = {}
    names: list[str] = [header.node, header.boot_id, header.penstock]
    seqs: list[int] = []
    times_ns: list[int] = []
    amounts: list[int] = []
    kinds: list[int] = []
    actors: list[int] = []
    peers: list[int] = []
    reasons: list[int] = []
    time_rows: list[int] = []
    times: list[list[int]] = [[], [], [], []]
    count_rows: list[int] = []
    counts: list[list[int]] = [[], [], [], [], [], [], [], []]
    for event in events:
        if isinstance(event, TimeSample):
            time_rows.append(len(seqs))
            times[0].append(event.idle_ns)
            times[1].append(event.busy_ns)
            times[2].append(event.blocked_ns)
            times[3].append(event.waiting_ns)
        elif isinstance(event, CountSample):
            count_rows.append(len(seqs))
            counts[0].append(event.ready)
            counts[1].append(event.unacked)
            counts[2].append(event.bytes)
            counts[3].append(event.published)
            counts[4].append(event.delivered)
            counts[5].append(event.acked)
            counts[6].append(event.consumers)
            counts[7].append(event.paged)
        seqs.append(event.seq)
        times_ns.append(event.t_ns)
        amounts.append(event.amount)
        kinds.append(_place(KIND_NAMES[event.kind], places, names))
        actors.append(_place(event.actor, places, names))
        peers.append(_place(event.peer, places, names))
        reasons.append(_place(event.reason, places, names))
    texts = [name.encode("utf-8", "replace") for name in names]
    offsets = [0]
    for text in texts:
        offsets.append(offsets[len(offsets) - 1] + len(text))
    parts = [
        HEAD.pack(
            MAGIC, len(seqs), len(time_rows), len(count_rows), len(names),
            _held(header.wall_ns), _held(header.mono_ns),
        ),
        _wide(seqs), _wide(times_ns), _wide(amounts),
        _small(kinds), _small(actors), _small(peers), _small(reasons),
        _small(time_rows), *[_wide(one) for one in times],
        _small(count_rows), *[_wide(one) for one in counts],
        _small(offsets), *texts,
    ]  # fmt: skip
    return b"".join(parts)


def _place(name: str, places: dict[str, int], names: list[str]) -> int:
    place = places.get(name)
    if place is None:
        place = places[name] = len(names)
        names.append(name)
    return place


def _wide(values: list[int]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}q", *values)
    except struct.error:
        return struct.pack(f"<{len(values)}q", *[_held(one) for one in values])


def _held(value: int) -> int:
    return max(_LOWEST, min(_HIGHEST, value))


def _small(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def layout_of(data: bytes) -> Layout:
    """Where everything is in `data`. Raises: TraceError when it is no batch, is of another version,
    or ends too early."""
    if len(data) < HEAD.size or data[:6] != MAGIC[:6]:
        raise TraceError("this is no batch of flow events")
    magic, events, times, counts, names, wall_ns, mono_ns = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise TraceError(
            f"a batch of flow events of version {magic[6:]!r}, where this penstock reads "
            f"{MAGIC[6:]!r}; read it with the penstock that wrote it"
        )
    sections: list[Section] = []
    at = HEAD.size
    for name, count, is_wide in (
        *[(one, events, True) for one in ("seq", "t_ns", "amount")],
        *[(one, events, False) for one in ("kind", "actor", "peer", "reason")],
        ("time rows", times, False),
        *[(one, times, True) for one in TIME_FIELDS],
        ("count rows", counts, False),
        *[(one, counts, True) for one in SAMPLE_COLUMNS],
        ("names", names + 1, False),
    ):
        sections.append(Section(name, at, count, is_wide))
        at += count * (I64_BYTES if is_wide else U32_BYTES)
    if names < HEADER_NAMES or at > len(data):
        raise TraceError("the batch of flow events ends too early")
    return Layout(events, wall_ns, mono_ns, sections, at)


def decode_batch(data: bytes) -> tuple[TraceHeader, list[Event]]:
    """What `encode_batch` was given. Raises: TraceError for what is no batch, or a damaged one."""
    layout = layout_of(data)
    columns: dict[str, list[int]] = {}
    for one in layout.sections:
        letter = "q" if one.is_wide else "I"
        columns[one.name] = list(struct.unpack_from(f"<{one.count}{letter}", data, one.at))
    try:
        names = _names(data, layout.text_at, columns["names"])
        times = _rows(columns, "time rows", TIME_FIELDS)
        counts = _rows(columns, "count rows", SAMPLE_COLUMNS)
        events = [_event(columns, names, times, counts, at) for at in range(layout.events)]
    except (IndexError, UnicodeDecodeError) as error:
        raise TraceError(f"the batch of flow events is damaged: {error}") from error
    header = TraceHeader(names[0], names[1], layout.wall_ns, layout.mono_ns, names[2])
    return header, events


def _names(data: bytes, text_at: int, offsets: list[int]) -> list[str]:
    found: list[str] = []
    for at in range(len(offsets) - 1):
        start, end = text_at + offsets[at], text_at + offsets[at + 1]
        if start > end or end > len(data):
            raise IndexError("a name lies outside")
        found.append(data[start:end].decode())
    return found


def _rows(columns: dict[str, list[int]], rows: str, names: tuple[str, ...]) -> dict[int, list[int]]:
    return {row: [columns[name][at] for name in names] for at, row in enumerate(columns[rows])}


def _event(
    columns: dict[str, list[int]],
    names: list[str],
    times: dict[int, list[int]],
    counts: dict[int, list[int]],
    at: int,
) -> Event:
    seq, t_ns = columns["seq"][at], columns["t_ns"][at]
    kind = kind_named(names[columns["kind"][at]])
    actor = names[columns["actor"][at]]
    if kind < 0:
        raise IndexError(f"no event is called {names[columns['kind'][at]]!r}")
    if at in times:
        return TimeSample(seq, t_ns, actor, *times[at])
    if at in counts:
        return CountSample(seq, t_ns, kind, actor, *counts[at])
    peer, reason = names[columns["peer"][at]], names[columns["reason"][at]]
    return Event(seq, t_ns, kind, actor, peer, reason, columns["amount"][at])
