"""The benchmark rows: what each asks of a broker, how the generator is called, what is expected.

A row is a list of `loadgen` options without durations. `count` is the number of messages of its
smoke run, small enough for an interpreted broker on a busy machine.

The targets judge a paired run against RabbitMQ on the same machine in the same hour; they inform
and never fail a run. Those in microseconds were written on one machine; what RabbitMQ took there
is in the rows, so that elsewhere they are asked times what RabbitMQ takes there.
They hold for the compiled broker; an uncompiled one is only asked not to lose (`UNCOMPILED`).
"""

from dataclasses import dataclass, replace
from typing import Final

WINDOW: Final = ("--confirm", "200", "--prefetch", "200", "--ackmulti", "50")
KEPT: Final = ("--persistent", "--durable")
# As many unconfirmed messages as a publisher needs that does not want to wait for the disk.
WIDE: Final = ("--confirm", "5000", "--prefetch", "1000", "--ackmulti", "50")


@dataclass(frozen=True, slots=True)
class Bound:
    """One thing asked of one number.

    metric: rate (messages/s), cpu_us (microseconds per message), p99_us, confirm_p99_syncs (in
    syncs of this disk in this minute), or a ratio to RabbitMQ (rate_ratio, cpu_ratio, p50_ratio:
    above 1 is better than it).
    floor, stretch: what must and what should be reached; stretch None: nothing beyond the floor.
    """

    metric: str
    floor: float
    stretch: float | None = None

    @property
    def is_ceiling(self) -> bool:
        """Whether smaller numbers are better."""
        return self.metric in CEILINGS


CEILINGS: Final = frozenset(
    {
        "cpu_us",
        "p99_us",
        "confirm_p99_syncs",
        "bytes_per_16b",
        "bytes_per_1k",
        "bytes_per_connection",
        "idle_mb",
        "start_s",
        "memory_left_mb",
        "command_cpu_s",
        "rss_over_depth_mb",
    }
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One row. copies: deliveries per published message; is_paced: the rate is set, not found;
    is_persistent: messages have to survive; half_of: the row of which this one has half the rate,
    each broker half of its own; has_limit: limit.c can play it, at the same rate; limit_goal: the
    share of its rate that a compiled Penstock should reach, 0 where none is set; reference_us:
    RabbitMQ's processor time a message where the bounds in microseconds and messages a second were
    written, 0 where that is not known."""

    name: str
    question: str
    options: tuple[str, ...]
    count: int
    bounds: tuple[Bound, ...] = ()
    copies: int = 1
    is_persistent: bool = False
    is_paced: bool = False
    half_of: str = ""
    has_limit: bool = True
    limit_goal: float = 0.0
    reference_us: float = 0.0


UNCOMPILED: Final = (Bound("rate_ratio", 1.0, 1.5), Bound("cpu_ratio", 1.0, 1.5))
UNCOMPILED_PACED: Final = (Bound("cpu_ratio", 1.0, 1.5),)
CONFIRMED_1K: Final = (
    Bound("rate_ratio", 9.0, 16.0),
    Bound("cpu_us", 1.1),
    Bound("p99_us", 1000.0),
)

# What is asked of persistent messages, with a sync before every confirm.
SAFE: Final = (Bound("rate_ratio", 1.0, 4.0), Bound("cpu_ratio", 5.0, 12.0), Bound("cpu_us", 4.0))

WORKLOADS: Final[tuple[Workload, ...]] = (
    Workload(
        "a16",
        "transient 16 B, auto-ack: what does a message cost when nothing is asked of it?",
        ("-s", "16"),
        4000,
        (Bound("rate_ratio", 10, 20), Bound("cpu_us", 0.4, 0.25), Bound("rate", 2.5e6)),
        limit_goal=0.35,
        reference_us=7.44,
    ),
    Workload(
        "a1k",
        "transient 1 KB, auto-ack: the same with an ordinary body",
        ("-s", "1024"),
        3000,
        (Bound("rate_ratio", 6, 10), Bound("cpu_us", 1.1, 0.75)),
        limit_goal=0.5,
        reference_us=11.1,
    ),
    Workload(
        "a16k",
        "transient 16 KB, auto-ack: how often are large bodies copied?",
        ("-s", "16384"),
        500,
        (Bound("rate_ratio", 1.5, 2), Bound("cpu_ratio", 2, 3)),
    ),
    Workload(
        "b16",
        "16 B, confirms (window 200), prefetch 200, one ack per 50: what do guarantees cost?",
        ("-s", "16", *WINDOW),
        3000,
    ),
    Workload(
        "b1k",
        "the same with 1 KB",
        ("-s", "1024", *WINDOW),
        3000,
        CONFIRMED_1K,
        reference_us=16.3,
    ),
    Workload(
        "b1k1",
        "the same, every delivery acked on its own",
        ("-s", "1024", "--confirm", "200", "--prefetch", "200", "--ackmulti", "1"),
        2000,
        CONFIRMED_1K,
        limit_goal=0.45,
        reference_us=19.2,
    ),
    Workload(
        "c1k",
        "persistent 1 KB in a durable queue, confirms (window 200): what does one publisher get "
        "who waits for the disk?",
        ("-s", "1024", *KEPT, *WINDOW),
        2000,
        SAFE,
        is_persistent=True,
        reference_us=29.7,
    ),
    Workload(
        "c1kw",
        "the same, window 5000, prefetch 1000: how well are commits shared?",
        ("-s", "1024", *KEPT, *WIDE),
        2000,
        SAFE,
        is_persistent=True,
        limit_goal=0.5,
        reference_us=42.03,
    ),
    Workload(
        "c1",
        "the same, one unconfirmed: how much more than a sync does a confirm take?",
        ("-s", "1024", *KEPT, "--confirm", "1", "--prefetch", "200", "--ackmulti", "50"),
        100,
        (Bound("rate_ratio", 1.2, 1.6),),
        is_persistent=True,
    ),
    Workload(
        "c1k4",
        "the same with 4 publishers, queues and consumers: do queues share a sync?",
        ("-s", "1024", *KEPT, "-P", "4", "-C", "4", "-Q", "4", *WIDE),
        2000,
        SAFE,
        is_persistent=True,
    ),
    Workload(
        "c16",
        "persistent 16 B, window 5000: what does a place on the disk cost without a body?",
        ("-s", "16", *KEPT, *WIDE),
        2000,
        (Bound("rate_ratio", 1.0, 4.0), Bound("cpu_ratio", 5.0, 12.0)),
        is_persistent=True,
    ),
    Workload(
        "c16k",
        "persistent 16 KB, window 200: how often is a body copied on its way to the disk?",
        ("-s", "16384", *KEPT, *WINDOW),
        300,
        (Bound("rate_ratio", 1.0, 2.0), Bound("cpu_ratio", 1.5, 3.0)),
        is_persistent=True,
    ),
    Workload(
        "chalf",
        "c1kw at half of the rate each broker reached there: how long does a confirm take, in "
        "syncs of this disk?",
        ("-s", "1024", *KEPT, *WIDE),
        2000,
        (Bound("confirm_p99_syncs", 3.0),),
        is_persistent=True,
        is_paced=True,
        half_of="c1kw",
        has_limit=False,
    ),
    Workload(
        "d16",
        "fan-out of 16 B to 5 queues: what does another copy cost? (rate: deliveries)",
        ("-s", "16", "--fanout", "-Q", "5", "-C", "5"),
        1000,
        (Bound("rate_ratio", 18, 40),),
        copies=5,
        limit_goal=0.35,
    ),
    Workload(
        "d1k",
        "the same with 1 KB",
        ("-s", "1024", "--fanout", "-Q", "5", "-C", "5"),
        1000,
        (Bound("rate_ratio", 10, 17),),
        copies=5,
    ),
    Workload(
        "m1k",
        "4 publishers, 4 queues, 4 consumers, 1 KB, confirms and acks: do streams share well?",
        ("-s", "1024", "-P", "4", "-C", "4", "-Q", "4", *WINDOW),
        3000,
    ),
    Workload(
        "q8",
        "8 publishers, 8 queues, 8 consumers, 16 B, confirms and acks",
        ("-s", "16", "-P", "8", "-C", "8", "-Q", "8", *WINDOW),
        4000,
        limit_goal=0.4,
    ),
    Workload(
        "pp",
        "one unconfirmed 16 B message at a time: what does one trip take? (kernel-bound)",
        ("-s", "16", "--confirm", "1"),
        300,
        (Bound("rate_ratio", 1.3, 1.5), Bound("cpu_ratio", 1.8), Bound("p50_ratio", 1)),
    ),
    Workload(
        "pp50",
        "50 such publishers, one consumer: is work gathered per turn?",
        ("-s", "16", "--confirm", "1", "-P", "50"),
        2000,
        (Bound("rate_ratio", 2.5, 3.8), Bound("cpu_us", 9)),
        limit_goal=0.6,
        reference_us=38.4,
    ),
    Workload(
        "fixed20k",
        "1 KB at 20,000 a second: latency and CPU at a load every broker carries",
        ("-s", "1024", "--rate", "20000"),
        4000,
        (Bound("p99_us", 600, 250), Bound("cpu_us", 2.5)),
        is_paced=True,
        reference_us=15.8,
    ),
    Workload(
        "mixed",
        "16 B to 64 KB (log-uniform), properties and headers, 1,000 keys of a topic exchange, "
        "20 queues and consumers, 4 publishers, confirms and acks: closest to real traffic",
        (
            *("--mixed", "--topic", "-P", "4", "-C", "20", "-Q", "20", "--confirm", "200"),
            *("--prefetch", "200", "--ackmulti", "20"),
        ),
        1000,
        has_limit=False,
    ),
    Workload(
        "mixedd",
        "the same over a direct exchange with one binding per key",
        (
            *("--mixed", "-P", "4", "-C", "20", "-Q", "20", "--confirm", "200"),
            *("--prefetch", "200", "--ackmulti", "20"),
        ),
        1000,
        has_limit=False,
    ),
)

RESOURCE_BOUNDS: Final[dict[str, tuple[Bound, ...]]] = {
    "memory": (
        Bound("bytes_per_16b", 220, 120),
        Bound("bytes_per_1k", 1300, 1150),
        Bound("bytes_per_connection", 12_288, 8192),
        Bound("memory_left_mb", 30),
        Bound("command_cpu_s", 0.15),
        Bound("idle_mb", 45),
        Bound("start_s", 0.6),
    ),
    "overload": (Bound("rss_over_depth_mb", 60), Bound("consumer_share", 0.99)),
    "drain": (),
}
RESOURCE_QUESTIONS: Final = {
    "memory": "bytes per queued 16 B and 1 KB message and per idle connection with a channel, "
    "idle memory, seconds from start to listening, what is left a minute after a backlog of 1 GB, "
    "processor time of the slowest command's start",
    "overload": "a flood of 1 KB against one consumer that acks 1,000 a second: does memory stay "
    "bounded, and does the consumer keep its rate?",
    "drain": "a backlog of persistent 1 KB messages, first taken without a consumer, then drained: "
    "how fast is each?",
}
ROW_NAMES: Final = (*(workload.name for workload in WORKLOADS), *RESOURCE_QUESTIONS)


def bounds_of(workload: Workload, is_compiled: bool) -> tuple[Bound, ...]:
    """What is asked of Penstock in this row: compiled, the table; uncompiled, not to lose."""
    if is_compiled:
        return workload.bounds
    return UNCOMPILED_PACED if workload.is_paced else UNCOMPILED


def at_pace(bounds: tuple[Bound, ...], slowness: float) -> tuple[Bound, ...]:
    """The same bounds on a machine that is `slowness` times as slow as theirs: processor time and
    rates change with it, ratios and latencies do not."""
    factors = {"cpu_us": slowness, "rate": 1.0 / slowness}
    found: list[Bound] = []
    for bound in bounds:
        factor = factors.get(bound.metric, 1.0)
        stretch = None if bound.stretch is None else bound.stretch * factor
        found.append(replace(bound, floor=bound.floor * factor, stretch=stretch))
    return tuple(found)


def resource_bounds_of(row: str, is_compiled: bool) -> tuple[Bound, ...]:
    """What is asked of Penstock's memory: of the interpreted broker only under overload."""
    return RESOURCE_BOUNDS[row] if is_compiled or row == "overload" else ()


def reach(bound: Bound, value: float) -> str:
    """How far `value` gets: 'stretch', 'floor' or 'below'; 'stretch' if there is nothing beyond."""
    sign = -1.0 if bound.is_ceiling else 1.0
    if sign * value < sign * bound.floor:
        return "below"
    if bound.stretch is not None and sign * value < sign * bound.stretch:
        return "floor"
    return "stretch"


def verdict(bounds: tuple[Bound, ...], values: dict[str, float]) -> str:
    """One word for a row and its reasons: the worst of its bounds, and those that were missed.

    A bound whose metric is not among `values` (no rival, no process id) is not judged.
    """
    judged = [(bound, values[bound.metric]) for bound in bounds if bound.metric in values]
    if not judged:
        return "not judged"
    reached = [reach(bound, value) for bound, value in judged]
    missed = [
        f"{bound.metric} {value:.3g}, asked {'<=' if bound.is_ceiling else '>='} {bound.floor:.4g}"
        for (bound, value), word in zip(judged, reached, strict=True)
        if word == "below"
    ]
    if missed:
        return "below floor (" + "; ".join(missed) + ")"
    word = "floor" if "floor" in reached else "stretch"
    skipped = len(bounds) - len(judged)
    return word + (f" ({skipped} of {len(bounds)} bounds not judged)" if skipped else "")
