"""What one actor looked like at one instant: the frozen numbers that leave the broker, and rates.

Plain data of strings, integers and floats, so that it can be sent to the management process and
kept in files. Cumulative numbers count since the actor came up; windows are their differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NS_PER_S: Final = 1_000_000_000
OTHERS: Final = "others"
"""Peer and reason of the one entry that sums up the pairs that were folded away."""

NOT_TAKEN: Final = -1
"""A snapshot's moment when it is that of its round."""


def per_second(count: float, elapsed_ns: int) -> float:
    """`count` events in `elapsed_ns` nanoseconds, as events per second; 0.0 if no time passed."""
    if elapsed_ns <= 0:
        return 0.0
    return count * NS_PER_S / elapsed_ns


@dataclass(frozen=True, slots=True)
class Times:
    """An actor's time by state, cumulative nanoseconds; the four sum to its age exactly."""

    idle_ns: int = 0
    busy_ns: int = 0
    blocked_ns: int = 0
    waiting_ns: int = 0

    def total_ns(self) -> int:
        """The actor's age in nanoseconds."""
        return self.idle_ns + self.busy_ns + self.blocked_ns + self.waiting_ns


NO_TIME: Final = Times()


@dataclass(frozen=True, slots=True)
class BlockTotals:
    """How one (peer, reason) has held one actor.

    ns: nanoseconds attributed to it: where several held the actor at once, each has an equal
    part; closed_ns: nanoseconds it held the actor, alone or not; stops: how often it began;
    longest_ns: longest single hold that ended, or still runs, in the present period;
    since_ns: monotonic start of the hold that runs now, None when it holds no actor;
    first_ns: monotonic start of its first hold, which tells a pair that was folded and came back.
    """

    peer: str
    reason: str
    ns: int
    closed_ns: int
    stops: int
    longest_ns: int
    since_ns: int | None
    first_ns: int


@dataclass(frozen=True, slots=True)
class BlockedTotals:
    """How an actor was held by everybody together.

    blocked_ns: nanoseconds with at least one closed reason; equals the sum of `ns` over `blocks`.
    stops, longest_ns, since_ns: as in BlockTotals, of the union of all holds.
    """

    blocked_ns: int = 0
    stops: int = 0
    longest_ns: int = 0
    since_ns: int | None = None
    blocks: tuple[BlockTotals, ...] = ()


NEVER_BLOCKED: Final = BlockedTotals()

NO_NUMBERS: Final[dict[str, float]] = {}
NO_LABELS: Final[dict[str, str]] = {}
"""What all snapshots share of which there is nothing to say there."""


def _no_numbers() -> Mapping[str, float]:
    return NO_NUMBERS


def _no_labels() -> dict[str, str]:
    return NO_LABELS


@dataclass(frozen=True, slots=True)
class ActorSnapshot:
    """One actor at one instant.

    actor: readable id, `queue:/orders`; kind: `conn`, `chan`, `queue`, `consumer`, `store`,
    `alarm`, `socket`; state: the word RabbitMQ would use, `running`, `flow`, `blocked`;
    started_ns: monotonic time it came up (TimeAccount.start_ns), which tells two lives of one name
    apart;
    taken_ns: monotonic time its numbers were read, NOT_TAKEN for that of its round;
    times: by state; blocked: by who held it. `times.blocked_ns` may be less than
    `blocked.blocked_ns`, because an actor held by one peer may work for another meanwhile.
    parked: who kept publishes of a connection or channel waiting.

    numbers: by name. Cumulative: those in window.COUNTER_NAMES. Now: ready, unacked (messages),
    bytes, consumers, prefetch (messages, 0 is unlimited), prefetch_full_share and socket_blocked
    (0..1, share of the consumers held by it), credit_now and credit_initial (messages; with
    `:PEER` appended when there are several), sync_now_ns (of a store: how long the sync under way
    has taken), used_bytes and limit_bytes (of an
    alarm), mailbox (messages handed to a queue and not taken), `debt:ACCOUNT` (messages of that
    account outstanding here), `stored:ACCOUNT` (bytes of it at rest here, of a deep queue only),
    `owed:ACCOUNT` (bytes of it that wait for this connection's socket), `wait_most:ANSWER` (most
    publishes that were unanswered at once since the round before).
    labels: name (what a client calls its connection), peer (address), user, client (product and
    version), platform (of the client), vhost.
    """

    actor: str
    kind: str
    state: str = ""
    started_ns: int = 0
    times: Times = NO_TIME
    blocked: BlockedTotals = NEVER_BLOCKED
    numbers: Mapping[str, float] = field(default_factory=_no_numbers)
    labels: dict[str, str] = field(default_factory=_no_labels)
    taken_ns: int = NOT_TAKEN
    parked: BlockedTotals = NEVER_BLOCKED
