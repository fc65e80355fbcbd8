"""A seeded generator of event files and traces whose root causes are known beforehand.

The world: publishers A and B feed `orders`, publisher C feeds `mail`. From 4 s to 8 s the consumer
of `orders` is slow, so the queue holds the channels of A and B, and these their connections. From
9 s to 10 s the memory alarm holds all three connections. Everything else is short holds by a busy
channel. The generator adds up what it injects; that is the ground truth.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from penstock.spark.schema.formats import Phase, RunDescription, write_run

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
START_NS = 5_000 * SECOND_NS + 123_456_789
WALL_NS = 1_780_315_200 * SECOND_NS
"""When that was: noon of 1 June 2026, UTC."""
PHASES = (("steady", 0, 4), ("slow consumer", 4, 8), ("drain", 8, 12))
QUEUES = {"A": "orders", "B": "orders", "C": "mail"}


@dataclass(slots=True)
class Truth:
    """What was put in. `blame_ns`: (victim, cause) -> ns."""

    blame_ns: dict[tuple[str, str], int] = field(default_factory=dict)
    lost_ids: list[str] = field(default_factory=list)
    duplicates: int = 0
    published: int = 0
    missing_events: int = 0

    def add(self, victim: str, cause: str, length_ns: int) -> None:
        key = (victim, cause)
        self.blame_ns[key] = self.blame_ns.get(key, 0) + length_ns


@dataclass(slots=True)
class World:
    """Options of the generator. A world with damage has torn lines, repeats and gaps.

    wall_ns: when it was; node, boot_id: of its broker."""

    seed: int
    messages: int = 600
    damaged: bool = False
    lost: int = 0
    duplicated: int = 0
    wall_ns: int = WALL_NS
    node: str = "a@test"
    boot_id: str = "b1"


def write_world(directory: Path, world: World) -> Truth:
    """Write events, traces and run.json to `directory`; returns the truth about them."""
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(world.seed)
    truth = Truth()
    events = _gate_events(chance, truth) + _samples()
    events.sort(key=lambda fields: int(str(fields["t"])))
    _write_events(directory, events, world, truth, chance)
    _write_traces(directory, world, truth, chance)
    write_run(
        directory,
        RunDescription(
            tuple(Phase(name, _at(low), _at(high)) for name, low, high in PHASES),
            "mail",
            "steady",
            "slow consumer",
        ),
    )
    return truth


def _at(seconds: float) -> int:
    return START_NS + int(seconds * SECOND_NS)


def _hold(
    events: list[dict[str, object]],
    actor: str,
    peer: str,
    reason: str,
    start: int,
    length: int,
) -> None:
    events.append(
        {
            "t": start,
            "kind": "gate_closed",
            "actor": actor,
            "peer": peer,
            "reason": reason,
            "amount": 0,
        }
    )
    events.append(
        {
            "t": start + length,
            "kind": "gate_opened",
            "actor": actor,
            "peer": peer,
            "reason": reason,
            "amount": length,
        }
    )


def _gate_events(chance: random.Random, truth: Truth) -> list[dict[str, object]]:
    events: list[dict[str, object]] = []
    tag = "consumer:ctag1@conn:W"
    events.append(
        {
            "t": _at(0.1),
            "kind": "actor_up",
            "actor": tag,
            "peer": "queue:/orders",
            "reason": "",
            "amount": 0,
        }
    )
    for name in QUEUES:
        for start in range(200, 3800, 200):
            length = chance.randrange(1, 30) * MILLISECOND_NS + chance.randrange(1000)
            _hold(events, f"conn:{name}", f"chan:{name}/1", "credit", _at(start / 1000), length)
            truth.add(f"conn:{name}", "broker work", length)
    for name in ("A", "B"):
        length = 4 * SECOND_NS - chance.randrange(50) * MILLISECOND_NS
        start = _at(4.0) + chance.randrange(1000)
        _hold(events, f"conn:{name}", f"chan:{name}/1", "credit", start + 20, length - 40)
        _hold(events, f"chan:{name}/1", "queue:/orders", "credit", start + 10, length - 20)
        truth.add(f"conn:{name}", "slow consumers", length - 40)
        truth.add(f"chan:{name}/1", "slow consumers", length - 20)
    _hold(events, "queue:/orders", "consumers:/orders", "depth", _at(4.0), 4 * SECOND_NS + 2000)
    _hold(events, tag, "client:W", "prefetch", _at(4.0), 3 * SECOND_NS)
    for name in QUEUES:
        _hold(events, f"conn:{name}", "alarm:memory", "memory", _at(9.0), SECOND_NS)
        truth.add(f"conn:{name}", "memory alarm", SECOND_NS)
    events.append({"t": _at(9.0), "kind": "alarm_set", "actor": "alarm:memory"})
    events.append({"t": _at(10.0), "kind": "alarm_cleared", "actor": "alarm:memory"})
    return events


def _samples() -> list[dict[str, object]]:
    events: list[dict[str, object]] = []
    for second in range(12):
        t = _at(second + 0.5)
        for index, actor in enumerate(("conn:A", "chan:A/1", "queue:/orders")):
            busy = second * (100 + index) * MILLISECOND_NS
            blocked = second * 50 * MILLISECOND_NS
            events.append(
                {
                    "t": t,
                    "kind": "time_sample",
                    "actor": actor,
                    "busy_ns": busy,
                    "idle_ns": second * SECOND_NS - busy - blocked,
                    "blocked_ns": blocked,
                    "waiting_ns": 0,
                }
            )
        for queue, ready in (("orders", second * 10), ("mail", 0)):
            events.append(
                {
                    "t": t,
                    "kind": "queue_sample",
                    "actor": f"queue:/{queue}",
                    "ready": ready,
                    "unacked": 3,
                    "bytes": ready * 100,
                    "published": 0,
                    "delivered": 0,
                    "acked": 0,
                    "consumers": 1,
                }
            )
    return events


def _write_events(
    directory: Path,
    events: list[dict[str, object]],
    world: World,
    truth: Truth,
    chance: random.Random,
) -> None:
    header = {
        "format": "penstock-events",
        "version": 1,
        "node": world.node,
        "boot_id": world.boot_id,
        "wall_ns": world.wall_ns,
        "mono_ns": START_NS,
        "penstock": "0.1.0",
    }
    lines = [json.dumps(header)]
    samples = [seq for seq, fields in enumerate(events, 1) if fields["kind"] == "queue_sample"]
    gone = set(chance.sample(samples[2:-2], 3)) if world.damaged else set()
    truth.missing_events = len(gone)
    for seq, fields in enumerate(events, 1):
        if seq not in gone:
            lines.append(json.dumps({"seq": seq, **fields}))
    if world.damaged:
        lines.extend(chance.sample(lines[1:], 5))
        lines.append(lines[-1][: len(lines[-1]) // 2])
    (directory / f"events-{world.boot_id}-0001.jsonl").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )


def _write_traces(
    directory: Path,
    world: World,
    truth: Truth,
    chance: random.Random,
) -> None:
    lost = set(chance.sample(range(world.messages), world.lost))
    twice = set(chance.sample(sorted(set(range(world.messages)) - lost), world.duplicated))
    truth.duplicates = len(twice)
    truth.published = world.messages
    publisher, consumer = [], []
    for number in range(world.messages):
        name = chance.choice("ABC")
        at = _at(0.1) + number * 11 * SECOND_NS // world.messages
        phase = next(name for name, low, high in PHASES if at < _at(high))
        message = {"id": f"{name}-{number}", "queue": QUEUES[name], "phase": phase}
        confirm = at + chance.randrange(1, 9) * MILLISECOND_NS
        deliver = at + chance.randrange(2, 20) * MILLISECOND_NS
        publisher += [
            {**message, "stage": "published", "t": at, "client": name},
            {**message, "stage": "confirmed", "t": confirm, "client": name},
        ]
        if number in lost:
            truth.lost_ids.append(f"{name}-{number}")
            continue
        for copy in range(2 if number in twice else 1):
            consumer += [
                {**message, "stage": "delivered", "t": deliver + copy, "client": "W"},
                {**message, "stage": "acked", "t": deliver + copy + 100, "client": "W"},
            ]
    for name, lines in (("publisher", publisher), ("consumer", consumer)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / f"trace-{name}.jsonl").write_text(text, encoding="utf-8")
