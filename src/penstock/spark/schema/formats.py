"""What the pipeline reads: flow event files, message traces, and the description of a run.

Three kinds of file lie in one input directory, all of JSON lines or JSON:

    events-*.jsonl   one header line, then one flow event a line   (`penstock serve --events DIR`)
    trace-*.jsonl    one stage of one message a line               (the clients of a run)
    run.json         phases and queues of the run, optional        (`penstock run`)

Times in files are nanoseconds of CLOCK_MONOTONIC, which every process of one machine shares; what
is read has those of the wall clock, by the two readings of one instant in the header of each event
file. A line that cannot be read (a file torn by a crash) is counted, never fatal. Events are
identified by (boot_id, seq), and each boot is one of one node: a repeated one is dropped, a missing
one is known loss and is reported.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import msgspec

from penstock.base.errors import OperatorError

TABLES: Final = "tables"
"""Where the tables stand in the directory of a report."""
EVENT_FILES: Final = "events-*.jsonl"
TRACE_FILES: Final = "trace-*.jsonl"
FILES: Final = (EVENT_FILES, TRACE_FILES)
RUN_FILE: Final = "run.json"
LIVES_MAX: Final = 20
HEADER_BYTES_MAX: Final = 65_536
EVENT_FORMAT: Final = "penstock-events"
EVENT_STREAM: Final = "amq.flow.telemetry"
"""Where a broker that was asked for it puts its events."""
DROPPED: Final = "dropped"

STATE_FIELDS: Final = ("idle_ns", "busy_ns", "blocked_ns", "waiting_ns")
SAMPLE_FIELDS: Final = (
    "ready",
    "unacked",
    "bytes",
    "published",
    "delivered",
    "acked",
    "consumers",
    "paged",
)
INTEGER_MAX: Final = (1 << 63) - 1
"""What a column of the tables can hold."""
_DAMAGE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading JSON into a type ends in where it is none."""

_READ_FIELDS: Final = frozenset(
    {
        "format",
        "boot_id",
        "node",
        "wall_ns",
        "mono_ns",
        "seq",
        "t",
        "kind",
        "actor",
        "peer",
        "reason",
        "amount",
    }
    | {*STATE_FIELDS, *SAMPLE_FIELDS}
    | {"id", "stage", "client", "queue", "phase"}
)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class TraceLine(NamedTuple):
    """One stage that one message reached, as its own client saw it."""

    message_id: str
    stage: str
    t_ns: int
    client: str
    queue: str
    phase: str
    node: str = ""


class Phase(NamedTuple):
    """One part of the scenario, [start_ns, end_ns)."""

    name: str
    start_ns: int
    end_ns: int


class Check(NamedTuple):
    """What the run has checked itself. `state`: kept, broken or unknown; `detail`: its numbers."""

    name: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """What an event file says of its broker. wall_ns, mono_ns: wall clock, UTC, and monotonic clock
    at one instant; facts: its Python, and settings that are not the usual ones."""

    node: str
    boot_id: str
    wall_ns: int = 0
    mono_ns: int = 0
    penstock: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What the run knew about itself: its phases in order, and which queue is the bystander.

    `unrelated_queue`: a queue that must not suffer when `slow_phase` begins; "" when unknown.
    `names`: address of a connection, as the broker's ids have it, -> name of its client;
    `names_of`: the same by node, where there were several runs, whose clients may share addresses.
    `facts`: settings and versions; `clients`: what each client has counted of messages published,
    confirmed and delivered; `checks`, `messages`: what the run has found out without its events;
    `brokers`: those whose events these are, the last one last.
    """

    phases: tuple[Phase, ...] = ()
    unrelated_queue: str = ""
    calm_phase: str = ""
    slow_phase: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    names_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    messages: tuple[str, ...] = ()
    brokers: tuple[BrokerLife, ...] = ()

    def clients_at(self, node: str) -> Mapping[str, str]:
        """Names of its clients that had connections to `node`, by their addresses there."""
        return self.names_of.get(node, {}) if self.names_of else self.names

    @property
    def origin_ns(self) -> int:
        """When the first phase begins, 0 without phases."""
        return self.phases[0].start_ns if self.phases else 0


def input_files(directory: Path, pattern: str) -> tuple[Path, ...]:
    """The files of one kind, sorted by name, so that every reader sees one order."""
    return tuple(sorted(directory.glob(pattern)))


def require_input(directory: Path) -> None:
    """Raises: OperatorError when the directory holds neither events nor traces."""
    if not directory.is_dir():
        raise OperatorError(f"{directory} is not a directory; give the one that holds the events")
    if not input_files(directory, EVENT_FILES) and not input_files(directory, TRACE_FILES):
        raise OperatorError(
            f"{directory} holds neither {EVENT_FILES} nor {TRACE_FILES}; record some with "
            f"`penstock serve --events {directory}` or let `penstock run` do all of it"
        )


def read_run(directory: Path) -> RunDescription:
    """Read run.json; an empty description when there is none.

    Raises: OperatorError when the file is there but is not a run description.
    """
    path = directory / RUN_FILE
    if not path.is_file():
        return RunDescription()
    try:
        run = msgspec.json.decode(path.read_bytes(), type=RunDescription)
    except (OSError, *_DAMAGE) as fault:
        raise OperatorError(
            f"{path} is not a run description ({fault}); delete it to analyse without phases"
        ) from fault
    offset_ns = header_of_traces(directory).offset_ns
    phases = ((name, start + offset_ns, end + offset_ns) for name, start, end in run.phases)
    return replace(run, phases=tuple(Phase(*one) for one in phases))


def write_run(directory: Path, run: RunDescription) -> None:
    """Write run.json, the inverse of `read_run`."""
    fields = {"format": "penstock-run", "version": 1, **asdict(run)}
    write_whole(directory / RUN_FILE, json.dumps(fields, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Put `text` into the place of a file, which a full disk or a kill leaves as it was. Raises:
    OSError."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def read_brokers(directory: Path) -> tuple[BrokerLife, ...]:
    """Whose events lie in `directory`, by when they began; the last LIVES_MAX at most. Names of
    files are those of boots, in no order of time."""
    found: list[BrokerLife] = []
    for path in input_files(directory, EVENT_FILES):
        with path.open("rb") as file, suppress(*_DAMAGE):
            found.append(msgspec.json.decode(file.readline(HEADER_BYTES_MAX), type=BrokerLife))
    found.sort(key=lambda one: (one.wall_ns, one.mono_ns, one.boot_id))
    return tuple(found[-LIVES_MAX:])


def fields_of(line: str) -> dict[str, Json] | None:
    """What a line says; None when it is no JSON object, or says in a field that is read something
    that no table can hold: a number beyond 64 bits, or half of a character."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    is_held = all(_can_be_held(fields[name]) for name in _READ_FIELDS & fields.keys())
    return fields if is_held else None


def _can_be_held(value: Json) -> bool:
    if isinstance(value, int):
        return -INTEGER_MAX - 1 <= value <= INTEGER_MAX
    return not isinstance(value, str) or value.isascii() or _is_text(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Header(NamedTuple):
    """Whose lines these are. offset_ns: what turns their times into those of the wall clock."""

    boot_id: str = ""
    node: str = ""
    offset_ns: int = 0


NO_HEADER: Final = Header()


def header_from_fields(fields: dict[str, Json] | None) -> Header:
    """Of the first line of an event file; empty when it is no header. An old one, without two
    readings of one instant, has times as they are, and so has one with impossible readings."""
    if fields is None or fields.get("format") != EVENT_FORMAT:
        return Header()
    wall_ns, mono_ns = number_in(fields, "wall_ns"), number_in(fields, "mono_ns")
    offset_ns = wall_ns - mono_ns if _can_be_held(wall_ns - mono_ns) else 0
    return Header(text_in(fields, "boot_id"), text_in(fields, "node"), offset_ns)


def event_header(file: BinaryIO) -> Header:
    """That of an open event file."""
    return header_from_fields(_first_fields(file))


def _first_fields(file: BinaryIO) -> dict[str, Json] | None:
    file.seek(0)
    return fields_of(file.readline().decode("utf-8", "replace"))


def header_of_traces(directory: Path) -> Header:
    """Whose the traces of the clients of a run are, and what turns their times into those of the
    wall clock: as of the broker that was first in its directory, without its boot. All of them
    shared a machine, and have no readings of their own. One that comes later changes nothing, as
    the clock may have been set meanwhile."""
    found: list[tuple[int, Header]] = []
    for path in input_files(directory, EVENT_FILES):
        with path.open("rb") as file:
            fields = _first_fields(file) or {}
        header = header_from_fields(fields)
        if header.boot_id:
            found.append((number_in(fields, "wall_ns"), header))
    return min(found, default=(0, Header()))[1]._replace(boot_id="")


def trace_from_fields(fields: dict[str, Json], header: Header = NO_HEADER) -> TraceLine:
    """One line of a trace file; what is missing or of another type is empty or 0."""
    return TraceLine(
        text_in(fields, "id"),
        text_in(fields, "stage"),
        time_in(fields, header.offset_ns),
        text_in(fields, "client"),
        text_in(fields, "queue"),
        text_in(fields, "phase"),
        header.node,
    )


def text_in(fields: dict[str, Json], name: str) -> str:
    """A field of a line, "" where it is missing or of another type."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def time_in(fields: dict[str, Json], offset_ns: int) -> int:
    """When it was said, by the wall clock. Beyond 64 bits it begins again, as in columns."""
    wide = number_in(fields, "t") + offset_ns + INTEGER_MAX + 1
    return wide % (2 * INTEGER_MAX + 2) - INTEGER_MAX - 1


def number_in(fields: dict[str, Json], name: str) -> int:
    """The same of a number, 0 where it is missing or of another type."""
    value = fields.get(name)
    return int(value) if isinstance(value, int) else 0
