"""Flow events such as a broker writes, of any number, for `bench/pipeline.py`.

A broker has 20 queues with ten publishers and two consumers each. A queue fills and empties in
cycles: consumers have all they may have, the queue is full, its publishers' channels are held, and
these hold their connections; then all of it the other way round. Once a second there is a sample
of everybody. The shapes differ in how long that takes:

    pressed   a cycle every 40 ms: of 100 events 97 are gates, and hundreds of them fall in a bucket
    calm      a cycle every 5 s: four of five events are samples, each of which is a row of results
    random    gates of 400 actors close and open without any order: the graph has no repeats
"""

import random
from collections.abc import Iterator
from heapq import merge
from itertools import count, islice
from pathlib import Path
from shutil import copyfileobj
from typing import Final, NamedTuple

from penstock.telemetry.events import (
    CONNECTION_SAMPLE,
    GATE_CLOSED,
    GATE_OPENED,
    QUEUE_SAMPLE,
    CountSample,
    Event,
    TimeSample,
)
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header

CYCLE_NS: Final = {"pressed": 40_000_000, "calm": 5_000_000_000, "random": 0}
SHAPES: Final = tuple(CYCLE_NS)
QUEUES: Final = 20
PUBLISHERS: Final = 10
CONSUMERS: Final = 2
START_NS: Final = 5_000_000_000_000
SECOND_NS: Final = 1_000_000_000
STEP_NS: Final = 50_000
BLOCK: Final = 20_000
BOOT_EVENTS: Final = 1_000_000
COPY_BYTES: Final = 1 << 20


class Gate(NamedTuple):
    """A gate that closes or opens, and when."""

    t_ns: int
    kind: int
    actor: str
    peer: str
    reason: str
    length_ns: int


def _stream_of(seed: int, shape: str) -> Iterator[Event]:
    """The events of one boot, in order, for ever."""
    if shape == "random":
        gates = _random(seed)
    else:
        cycles = [_cycles(seed, queue, CYCLE_NS[shape]) for queue in range(QUEUES)]
        gates = merge(*cycles, key=lambda gate: gate.t_ns)
    return _numbered(gates, seed)


def _numbered(gates: Iterator[Gate], seed: int) -> Iterator[Event]:
    """Gates and, once a second, samples, in the order of their sequences."""
    numbers = count()
    sampled_ns = START_NS
    for gate in gates:
        while gate.t_ns >= sampled_ns + SECOND_NS:
            sampled_ns += SECOND_NS
            yield from _samples(numbers, seed, sampled_ns)
        t_ns, kind, actor, peer, reason, length_ns = gate
        yield Event(next(numbers), t_ns, kind, actor, peer, reason, length_ns)


def _samples(numbers: Iterator[int], seed: int, t_ns: int) -> Iterator[Event]:
    age_ns = t_ns - START_NS
    for queue in range(QUEUES):
        actors = [_queue(queue)]
        for number in range(PUBLISHERS):
            actors += _publisher(seed, queue, number)
        for actor in actors:
            busy_ns = age_ns // 3
            yield TimeSample(next(numbers), t_ns, actor, age_ns - 2 * busy_ns, busy_ns, busy_ns, 0)
        passed = age_ns // 10_000
        for actor, kind in (
            (_queue(queue), QUEUE_SAMPLE),
            *(
                (_publisher(seed, queue, number)[0], CONNECTION_SAMPLE)
                for number in range(PUBLISHERS)
            ),
        ):
            yield CountSample(
                next(numbers), t_ns, kind, actor, queue, 3, queue * 100, passed, passed, passed,
                CONSUMERS,
            )  # fmt: skip


def _queue(queue: int) -> str:
    return f"queue:/work-{queue}"


def _publisher(seed: int, queue: int, number: int) -> tuple[str, str]:
    """Its connection and its channel."""
    name = f"10.0.0.{seed}:{40_000 + queue * PUBLISHERS + number}"
    return f"conn:{name}", f"chan:{name}/1"


def _cycles(seed: int, queue: int, length_ns: int) -> Iterator[Gate]:
    """One queue, for ever: full for about half of the time."""
    chance = random.Random(seed * 1_000 + queue)
    t_ns = START_NS + chance.randrange(length_ns)
    while True:
        opens_ns = t_ns + chance.randrange(length_ns // 4, length_ns)
        gates: list[Gate] = []
        for actor, peer, reason in _edges(seed, queue):
            # One after the other, as one finds the next one closed.
            t_ns += chance.randrange(1_000, 100_000)
            opened_ns = opens_ns + t_ns % 5_000_000
            gates.append(Gate(t_ns, GATE_CLOSED, actor, peer, reason, 0))
            gates.append(Gate(opened_ns, GATE_OPENED, actor, peer, reason, opened_ns - t_ns))
        gates.sort()
        yield from gates
        t_ns = gates[-1].t_ns + chance.randrange(1, length_ns // 2)


def _edges(seed: int, queue: int) -> Iterator[tuple[str, str, str]]:
    for number in range(CONSUMERS):
        client = f"10.0.1.{seed}:{50_000 + queue * CONSUMERS + number}"
        yield f"consumer:tag-{number}@conn:{client}", f"client:{client}", "prefetch"
    yield _queue(queue), f"consumers:/work-{queue}", "depth"
    for number in range(PUBLISHERS):
        connection, channel = _publisher(seed, queue, number)
        yield channel, _queue(queue), "credit"
        yield connection, channel, "credit"


def _random(seed: int) -> Iterator[Gate]:
    chance = random.Random(seed)
    open_: dict[tuple[str, str], int] = {}
    for number in count(1):
        t_ns = START_NS + number * STEP_NS
        queue = chance.randrange(QUEUES)
        connection, channel = _publisher(seed, queue, chance.randrange(PUBLISHERS))
        pair = (connection, channel) if number % 2 else (channel, _queue(queue))
        began_ns = open_.pop(pair, None)
        if began_ns is None:
            open_[pair] = t_ns
            yield Gate(t_ns, GATE_CLOSED, *pair, "credit", 0)
        else:
            yield Gate(t_ns, GATE_OPENED, *pair, "credit", t_ns - began_ns)


def write_events(directory: Path, number: int, shape: str = "pressed", boots: int = 0) -> int:
    """Boots with as many events each, one after the other; of many boots every second one has the
    same events. boots: how many, 0 for two or more of at most BOOT_EVENTS. How many events these
    are, `number` or a few less."""
    directory.mkdir(parents=True)
    boots = boots or max(2, -(-number // BOOT_EVENTS))
    each = number // boots
    bodies: dict[int, tuple[Path, int]] = {}
    began_ns = 0
    for boot in range(boots):
        file_name = directory / f"events-{boot:04d}.jsonl"
        with file_name.open("wb") as file:
            header = TraceHeader("bench", str(boot + 1), began_ns, 0, "bench")
            file.write(encode_header(header))
            seed = boot % 2 + 1
            if seed in bodies:
                known, length_ns = bodies[seed]
                with known.open("rb") as other:
                    other.readline()
                    copyfileobj(other, file, COPY_BYTES)
            else:
                length_ns = 0
                events = islice(_stream_of(seed, shape), each)
                while block := list(islice(events, BLOCK)):
                    file.write(encode_events(block))
                    length_ns = block[-1].t_ns - START_NS + SECOND_NS
                bodies[seed] = (file_name, length_ns)
        began_ns += length_ns
    return each * boots
