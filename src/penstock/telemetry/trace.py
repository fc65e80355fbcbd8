"""Event files: JSON lines with a version, for replay, for Spark, and for people with `grep`.

First line: {"format":"penstock-events","version":1,"node":..,"boot_id":..,"wall_ns":..,
"mono_ns":..,"penstock":..}, where wall_ns and mono_ns are two readings of one instant. Every
further line is one event: {"seq","t","kind","actor","peer","reason","amount"}; an actor_up of a
connection has what its client calls itself as its reason; a time_sample has
idle_ns, busy_ns, blocked_ns, waiting_ns besides, a queue_sample or connection_sample has ready,
unacked, bytes, published, delivered, acked, consumers, and paged where that is not 0.
(node, boot_id, seq) is unique, and the sequences of a file have no gap that a `dropped` event does
not account for.

A file may end in the middle of a line (power cut, file still being written): that line is left
out. Unknown fields are passed over; an unknown kind needs a new version. This module is compiled.
"""

import json
from json.encoder import encode_basestring_ascii
from typing import Final

from penstock.base.errors import OperatorError
from penstock.telemetry.events import (
    CONNECTION_SAMPLE,
    COUNT_FIELDS,
    KIND_NAMES,
    QUEUE_SAMPLE,
    TIME_FIELDS,
    TIME_SAMPLE,
    CountSample,
    Event,
    TimeSample,
    kind_named,
)

FORMAT: Final = "penstock-events"
VERSION: Final = 1


class TraceError(OperatorError):
    """The file cannot be read as an event file; the text says where and why."""


class TraceHeader:
    """The first line of an event file.

    node: the broker's name; boot_id: unique to one run of it; wall_ns, mono_ns: wall clock (since
    1970, UTC) and monotonic clock at one instant, nanoseconds; penstock: version that wrote it;
    facts: its Python, and settings that are not the usual ones, in a file only.
    """

    __slots__ = ("boot_id", "facts", "mono_ns", "node", "penstock", "wall_ns")

    def __init__(
        self,
        node: str,
        boot_id: str,
        wall_ns: int,
        mono_ns: int,
        penstock: str,
        facts: dict[str, str] | None = None,
    ) -> None:
        self.facts: dict[str, str] = {} if facts is None else facts
        self.node = node
        self.boot_id = boot_id
        self.wall_ns = wall_ns
        self.mono_ns = mono_ns
        self.penstock = penstock

    def wall_at(self, t_ns: int) -> int:
        """Wall-clock nanoseconds of the monotonic time `t_ns` of an event in the same file."""
        return self.wall_ns + t_ns - self.mono_ns


def encode_header(header: TraceHeader) -> bytes:
    """The first line of a file, with its line end."""
    fields: dict[str, str | int | dict[str, str]] = {
        "format": FORMAT,
        "version": VERSION,
        "node": header.node,
        "boot_id": header.boot_id,
        "wall_ns": header.wall_ns,
        "mono_ns": header.mono_ns,
        "penstock": header.penstock,
    }
    if header.facts:
        fields["facts"] = header.facts
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def encode_events(events: list[Event]) -> bytes:
    """One line per event, each with its line end, in the order given.

    Built by hand, because a line is a fixed frame around a few numbers and a few names; the names
    repeat, so each is quoted once per call.
    """
    quoted: dict[str, str] = {}
    parts: list[str] = []
    for event in events:
        actor = quoted.get(event.actor)
        if actor is None:
            actor = quoted[event.actor] = encode_basestring_ascii(event.actor)
        peer = quoted.get(event.peer)
        if peer is None:
            peer = quoted[event.peer] = encode_basestring_ascii(event.peer)
        reason = quoted.get(event.reason)
        if reason is None:
            reason = quoted[event.reason] = encode_basestring_ascii(event.reason)
        parts.append(
            f'{{"seq":{event.seq},"t":{event.t_ns},"kind":"{KIND_NAMES[event.kind]}"'
            f',"actor":{actor},"peer":{peer},"reason":{reason},"amount":{event.amount}'
        )
        if isinstance(event, TimeSample):
            parts.append(
                f',"idle_ns":{event.idle_ns},"busy_ns":{event.busy_ns}'
                f',"blocked_ns":{event.blocked_ns},"waiting_ns":{event.waiting_ns}}}\n'
            )
        elif isinstance(event, CountSample):
            parts.append(
                f',"ready":{event.ready},"unacked":{event.unacked},"bytes":{event.bytes}'
                f',"published":{event.published},"delivered":{event.delivered}'
                f',"acked":{event.acked},"consumers":{event.consumers}'
            )
            # Few queues page, and their readers take what is missing for none.
            parts.append(f',"paged":{event.paged}}}\n' if event.paged else "}\n")
        else:
            parts.append("}\n")
    return "".join(parts).encode("ascii")


def decode_event(line: bytes, line_number: int = 0) -> Event:
    """The event on one line; a sample comes as TimeSample or CountSample.

    line_number: 1.., named in errors; 0 when it is not known. Raises: TraceError.
    """
    fields = _object(line, line_number)
    name = _text(fields, "kind", line_number)
    kind = kind_named(name)
    if kind < 0:
        raise _broken(line_number, f"no event is called {name!r} in version {VERSION}")
    seq = _number(fields, "seq", line_number)
    t_ns = _number(fields, "t", line_number)
    actor = _text(fields, "actor", line_number)
    if kind == TIME_SAMPLE and "idle_ns" in fields:
        times = [_number(fields, one, line_number) for one in TIME_FIELDS]
        return TimeSample(seq, t_ns, actor, *times)
    if kind in (QUEUE_SAMPLE, CONNECTION_SAMPLE) and "ready" in fields:
        counts = [_number(fields, one, line_number) for one in COUNT_FIELDS]
        if "paged" in fields:
            counts.append(_number(fields, "paged", line_number))
        return CountSample(seq, t_ns, kind, actor, *counts)
    return Event(
        seq,
        t_ns,
        kind,
        actor,
        _text(fields, "peer", line_number),
        _text(fields, "reason", line_number),
        _number(fields, "amount", line_number),
    )


def _object(line: bytes, line_number: int) -> dict[str, object]:
    try:
        # ValueError covers text that is not JSON and bytes that are not UTF-8; RecursionError is
        # what the parser answers to brackets nested thousands deep.
        answer: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _broken(line_number, "it is not JSON") from error
    if not isinstance(answer, dict):
        raise _broken(line_number, "it is not a JSON object")
    return answer


def _text(fields: dict[str, object], name: str, line_number: int) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    raise _broken(line_number, f'"{name}" is missing or not a string')


def _number(fields: dict[str, object], name: str, line_number: int) -> int:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _broken(line_number, f'"{name}" is missing or not a whole number')


def _broken(line_number: int, why: str) -> TraceError:
    where = f"line {line_number} of the event file" if line_number > 0 else "a line of events"
    return TraceError(f"{where} cannot be read: {why}")
