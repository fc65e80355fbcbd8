"""What a run shall do: every option of `penstock perf`, checked once, and what follows."""

from dataclasses import dataclass, field

from penstock.base.errors import OperatorError
from penstock.perf.stamp import STAMP_BYTES
from penstock.protocol.values import Table


@dataclass(frozen=True, slots=True)
class Plan:
    """One load run. Counts are per producer or per consumer where the name says so.

    size_bytes_min..max: body sizes, drawn evenly; rate_per_s: messages a second and producer,
    0 for as fast as possible; confirms_max: publishes that may be unconfirmed, 0 for no confirms;
    prefetch: 0 for no bound; duration_s, warm_up_s, grace_s: seconds; consumer_latency_us:
    microseconds of pretended work per message; messages_per_*: 0 for no count.
    Raises: OperatorError for options that cannot go together, naming both.
    """

    producers: int = 1
    consumers: int = 1
    size_bytes_min: int = STAMP_BYTES
    size_bytes_max: int = STAMP_BYTES
    rate_per_s: float = 0.0
    confirms_max: int = 0
    prefetch: int = 0
    persistent: bool = False
    mandatory: bool = False
    auto_ack: bool = False
    ack_every: int = 1
    queues: tuple[str, ...] = ()
    exchange: str | None = None
    exchange_type: str = "direct"
    routing_key: str | None = None
    durable: bool = False
    auto_delete: bool = False
    predeclared: bool = False
    queue_arguments: Table = field(default_factory=dict)
    duration_s: float = 0.0
    messages_per_producer: int = 0
    messages_per_consumer: int = 0
    warm_up_s: float = 0.0
    grace_s: float = 10.0
    consumer_rate_per_s: float = 0.0
    consumer_latency_us: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.producers + self.consumers < 1:
            raise OperatorError("nothing to do: no producers and no consumers")
        if not STAMP_BYTES <= self.size_bytes_min <= self.size_bytes_max:
            raise OperatorError(
                f"body sizes {self.size_bytes_min}..{self.size_bytes_max}: a body carries a time "
                f"stamp and has at least {STAMP_BYTES} bytes, and the range must not be reversed"
            )
        if not self.auto_ack and 0 < self.prefetch < self.ack_every:
            raise OperatorError(
                f"--multi-ack-every {self.ack_every} with --prefetch {self.prefetch}: the broker "
                "stops delivering before the first ack; make the prefetch at least as large"
            )
        if self.predeclared and self.consumers and not self.queues:
            raise OperatorError("--predeclared needs the names of the queues (--queue)")

    def is_counting(self) -> bool:
        """Whether producers have a number of messages to publish, so that loss can be told."""
        return self.messages_per_producer > 0

    def consumer_interval_ns(self) -> int:
        """Nanoseconds from one message to the next in a consumer that pretends to work; or 0."""
        by_rate = 1e9 / self.consumer_rate_per_s if self.consumer_rate_per_s else 0.0
        return int(max(by_rate, self.consumer_latency_us * 1000))


def queue_names(pattern: str, first: int, last: int) -> tuple[str, ...]:
    """The queues `pattern % n` for n in first..last, as PerfTest's --queue-pattern.

    Raises: OperatorError when the pattern takes no number or the range is empty.
    """
    if first > last:
        raise OperatorError(f"queue pattern from {first} to {last} names no queue")
    try:
        names = tuple(pattern % number for number in range(first, last + 1))
    except (TypeError, ValueError) as error:
        raise OperatorError(f"queue pattern {pattern!r} needs one number, as in perf-%d") from error
    return names
