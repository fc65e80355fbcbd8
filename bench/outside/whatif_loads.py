"""The loads and changes that `whatif_truth` tries, and the clients that make them real.

A load is what a broker's clients do: publishers with windows and rates, consumers with prefetch and
a rate. A change is KEY=VALUE as `penstock whatif` takes it. What belongs to the broker is set with
`penstock flow set` or at its start, and what belongs to the clients is done by them.
"""

import statistics
import struct
import time
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from bench.brokers import Broker, penstock_target
from bench.outside.wire import Connection, Consumer, Loop, Publisher, short
from penstock.server.control.control_client import ask, control_path

KIB: Final = 1024
SAMPLE_S: Final = 0.2
"""How often the depth of each queue is asked for."""
WITNESS_PER_S: Final = 50.0
TRIES: Final = 3
"""Measurements, until one is not disturbed."""
DISTURBED: Final = 0.03
"""Of its rate: a client on a timetable that is further off did not get the processor."""
PARTS: Final = 5
"""Equal stretches of a measurement, of which latencies are the median."""
AT_START: Final = ("queue_depth", "profile")
"""Keys that a broker takes only when it starts."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """`count` publishers of one queue. window: publishes without a confirm; per_s: of each, 0 for
    as fast as it may."""

    queue: str
    count: int
    window: int
    per_s: float = 0.0
    body_bytes: int = 1000


@dataclass(frozen=True, slots=True)
class Consuming:
    """One consumer of a queue. per_s: acknowledgements, 0 for at once."""

    queue: str
    per_s: float = 0.0
    prefetch: int = 50


@dataclass(frozen=True, slots=True)
class Load:
    """name; who publishes and consumes; the broker's depth mark; changes: what is foretold and then
    done, one after the other, each from the load as it stands here."""

    name: str
    publishers: tuple[Publishing, ...]
    consumers: tuple[Consuming, ...]
    depth_bytes: int
    changes: tuple[str, ...]

    def queues(self) -> list[str]:
        """Each once, in order."""
        named = [one.queue for one in self.publishers] + [one.queue for one in self.consumers]
        return list(dict.fromkeys(named))


SMALL: Final = "credit.channel_queue=50/25 credit.connection_channel=50/25"
LARGE: Final = "credit.channel_queue=1000/500 credit.connection_channel=1000/500"
LOADS: Final = (
    Load(
        "pressed",
        (Publishing("work", 2, 1000),),
        (Consuming("work", 400.0),),
        256 * KIB,
        (SMALL, LARGE, "consumers=2", "queue_depth=1MiB"),
    ),
    Load(
        "windowed",
        (Publishing("work", 4, 50),),
        (Consuming("work", 500.0, 100),),
        256 * KIB,
        ("credit.channel_queue=20/10", "consumers=1.5", "consumers=0.5", "prefetch=20"),
    ),
    Load(
        "timetable",
        (Publishing("work", 3, 100, 150.0),),
        (Consuming("work"),),
        256 * KIB,
        ("load=2", SMALL, "prefetch=5", "queue_depth=64KiB"),
    ),
    Load(
        "near",
        (Publishing("work", 2, 200, 200.0),),
        (Consuming("work", 500.0, 20),),
        256 * KIB,
        ("load=1.5", "load=0.5", "consumers=0.7", "credit.channel_queue=100/50"),
    ),
    Load(
        "two queues",
        (Publishing("slow", 2, 400, body_bytes=4000), Publishing("fast", 1, 100, 300.0)),
        (Consuming("slow", 200.0), Consuming("fast")),
        512 * KIB,
        (SMALL, LARGE, "consumers=2", "queue_depth=2MiB"),
    ),
)


def varied(load: Load, dice: Random) -> Load:
    """A load of the same kind with other numbers: nothing that is foretold was fitted to it."""

    def some(lowest: float, highest: float) -> float:
        return float(lowest * (highest / lowest) ** dice.random())

    publishers = tuple(
        replace(
            one,
            count=max(1, round(one.count * some(0.7, 2.0))),
            window=round(one.window * some(0.5, 1.5)),
            body_bytes=round(one.body_bytes * some(0.3, 2.0)),
        )
        for one in load.publishers
    )
    pace = some(0.6, 1.3)
    publishers = tuple(
        # As many a second together as before, times the pace.
        replace(one, per_s=one.per_s * pace * old.count / one.count)
        for old, one in zip(load.publishers, publishers, strict=True)
    )
    consumers = tuple(
        replace(one, per_s=one.per_s * pace, prefetch=round(one.prefetch * some(0.5, 2.0)))
        for one in load.consumers
    )
    depth_bytes = round(load.depth_bytes * some(0.5, 2.0))
    return replace(load, publishers=publishers, consumers=consumers, depth_bytes=depth_bytes)


@dataclass(frozen=True, slots=True)
class QueueTruth:
    """What one queue did. in_per_s, out_per_s: messages taken, and answered; held: ready and with
    consumers, mean of samples; held_first, held_last: means of the first and last fifth."""

    in_per_s: float
    out_per_s: float
    held: float
    held_first: float
    held_last: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What clients have seen in `seconds`. p50_ms, p99_ms: from a publish to its confirm, of all
    publishers, each the median of PARTS, so that a moment in which the machine stood still is
    not taken for what the broker does. noise_ms: p99 of the witness in the same time."""

    seconds: float
    queues: dict[str, QueueTruth]
    p50_ms: float
    p99_ms: float
    confirms: int
    noise_ms: float = 0.0


class Scene:
    """A broker with the clients of one load. End it with `close`. witness: another broker, which
    has nothing to do: how long it takes to confirm is what the machine and the clients take."""

    def __init__(
        self, load: Load, python: str, witness: Broker, options: tuple[str, ...] = ()
    ) -> None:
        words = options or ("--queue-depth", str(load.depth_bytes))
        self.load = load
        self.broker: Broker = penstock_target(python, words).start()
        self.loop = Loop()
        self.asking = Connection(self.loop, self.broker.port, name="depths")
        self.asking.channel(1)
        for queue in load.queues():
            self.asking.declare(queue)
        self.loop.before.append(self._pace)
        self.consumers: list[tuple[Consuming, Consumer]] = []
        for one in load.consumers:
            self._consume(one)
        self.publishers = [(one, self._publisher(one)) for one in load.publishers for _ in
                           range(one.count)]  # fmt: skip
        self._undo: list[tuple[str, str]] = []
        self.witness = Publisher(
            self.loop, witness.port, "", body=b"x", window=100, rate=WITNESS_PER_S
        )

    def close(self) -> None:
        """Drop the clients, end the broker."""
        for _, publisher in self.publishers:
            publisher.connection.drop()
        for _, consumer in self.consumers:
            consumer.connection.drop()
        self.asking.drop()
        self.witness.connection.drop()
        self.broker.stop()

    # -- clients ---------------------------------------------------------------------------------

    def _publisher(self, one: Publishing) -> Publisher:
        body = b"x" * one.body_bytes
        return Publisher(
            self.loop, self.broker.port, one.queue, body=body, window=one.window, rate=one.per_s
        )

    def _consume(self, one: Consuming) -> None:
        consumer = Consumer(
            self.loop, self.broker.port, one.queue, prefetch=one.prefetch, rate=one.per_s
        )
        self.consumers.append((one, consumer))

    def _pace(self, now: float) -> None:
        """A consumer that had nothing to do does not work faster later because of it."""
        for _, consumer in self.consumers:
            if consumer.rate and consumer.taken <= consumer.acked:
                consumer.began = now - consumer.acked / consumer.rate

    # -- changes ---------------------------------------------------------------------------------

    def apply(self, change: str) -> None:
        """Do what KEY=VALUE KEY=VALUE says. Raises: ValueError for what only a start can change."""
        settings = {}
        for word in change.split():
            key, _, value = word.partition("=")
            if key in AT_START:
                raise ValueError(f"{key} is for a broker that starts")
            if key == "load":
                self._rate_publishers(float(value))
            elif key == "consumers":
                self._rate_consumers(float(value))
            elif key == "prefetch":
                self._replace_consumers(int(value))
            else:
                settings[key] = value
        if settings:
            self._set(settings)

    def revert(self, change: str) -> None:
        """As it was before `apply`."""
        back = dict(self._undo)
        self._undo.clear()
        if back:
            self._set(back)
            self._undo.clear()
        if "load=" in change:
            self._rate_publishers(1.0)
        if "consumers=" in change:
            self._rate_consumers(1.0)
        if "prefetch=" in change:
            self._replace_consumers(0)

    def _set(self, settings: dict[str, str]) -> None:
        path = control_path(self.broker.port)
        listed = ask(path, {"op": "flow", "do": "settings"})
        rows = listed["settings"]
        assert isinstance(rows, list), "settings come as a list"
        self._undo = [(row["key"], row["value"]) for row in rows if row["key"] in settings]
        ask(path, {"op": "flow", "do": "set", "changes": settings})

    def _rate_publishers(self, factor: float) -> None:
        now = time.monotonic()
        for one, publisher in self.publishers:
            if one.per_s:
                publisher.rate = one.per_s * factor
                publisher.began = now - publisher.sent / publisher.rate

    def _rate_consumers(self, factor: float) -> None:
        now = time.monotonic()
        for one, consumer in self.consumers:
            if one.per_s:
                consumer.rate = one.per_s * factor
                consumer.began = now - consumer.acked / consumer.rate

    def _replace_consumers(self, prefetch: int) -> None:
        """With another prefetch, 0 for what the load says."""
        old, self.consumers = self.consumers, []
        for one, consumer in old:
            consumer.connection.drop()
            self.loop.before.remove(consumer.step)
            self._consume(replace(one, prefetch=prefetch or one.prefetch))
        self.consumers = [
            (one, new) for (one, _), (_, new) in zip(old, self.consumers, strict=True)
        ]

    # -- looking ---------------------------------------------------------------------------------

    def measure(self, seconds: float) -> Truth:
        """Let the clients work for so long, and say what they saw; again if they could not work as
        they should, because somebody else had the processor."""
        for left in range(TRIES - 1, -1, -1):
            paced = [
                one for one in (self.witness, *(one for _, one in self.publishers)) if one.rate
            ]
            before = [one.sent for one in paced]
            found = self._measured(seconds)
            wanted = [one.rate * found.seconds for one in paced]
            off = [
                abs(one.sent - sent - due) / due
                for one, sent, due in zip(paced, before, wanted, strict=True)
                # Who waits for its confirms is held by the broker, not by the machine.
                if one.owed() < one.window
            ]
            if left == 0 or max(off, default=0.0) <= DISTURBED:
                break
            self.loop.run(seconds / 4)
        return found

    def _measured(self, seconds: float) -> Truth:
        queues = self.load.queues()
        acked = {queue: self._acked(queue) for queue in queues}
        first = {queue: self._held(queue) for queue in queues}
        samples: dict[str, list[float]] = {queue: [first[queue]] for queue in queues}
        parts: list[list[float]] = []
        noise: list[float] = []
        began = time.monotonic()
        for part in range(PARTS):
            for _, publisher in self.publishers:
                publisher.latencies.clear()
            self.witness.latencies.clear()
            end = began + seconds * (part + 1) / PARTS
            while (left := end - time.monotonic()) > 0:
                self.loop.run(min(SAMPLE_S, left))
                for queue in queues:
                    samples[queue].append(self._held(queue))
            noise.append(at_share(sorted(self.witness.latencies), 0.99))
            parts.append(sorted(ms for _, one in self.publishers for ms in one.latencies))
        took = time.monotonic() - began
        found = {}
        for queue in queues:
            out = (self._acked(queue) - acked[queue]) / took
            line = samples[queue]
            fifth = max(1, len(line) // 5)
            found[queue] = QueueTruth(
                out + (line[-1] - line[0]) / took,
                out,
                statistics.fmean(line),
                statistics.fmean(line[:fifth]),
                statistics.fmean(line[-fifth:]),
            )
        medians = [
            statistics.median(at_share(part, share) for part in parts) for share in (0.5, 0.99)
        ]
        confirms = sum(map(len, parts))
        return Truth(took, found, medians[0], medians[1], confirms, statistics.median(noise))

    def _acked(self, queue: str) -> int:
        return sum(one.acked for spec, one in self.consumers if spec.queue == queue)

    def _held(self, queue: str) -> float:
        """Ready, by a passive declare, and with consumers."""
        head = struct.pack(">H", 0) + short(queue) + b"\x01" + struct.pack(">I", 0)
        answer = self.asking.call(1, 50, 10, head)
        ready, _ = struct.unpack_from(">II", answer, 1 + answer[0])
        owed = sum(one.taken - one.acked for spec, one in self.consumers if spec.queue == queue)
        return float(ready + owed)


def at_share(ordered: list[float], share: float) -> float:
    """Milliseconds of seconds in order, 0 for none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000
