"""Which rules are in force: the emulation profiles of RabbitMQ, our default, and static ones.

A profile is data; the strategy it makes is the only rule an actor meets. Windows are given for each
kind of hop. Source: flow-semantics 2.7 (defaults by version), architecture section 5 (two
personalities, one mechanism), scenario 22.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import UNSENT_DELIVERIES, UNSENT_DELIVERIES_MAX
from penstock.flow.adaptive import INTERVAL_NS, TARGET_NS, Adaptive
from penstock.flow.credit import Credit, Debt, Strategy, Window
from penstock.flow.hop import (
    KIND_CHANNEL_QUEUE,
    KIND_CONNECTION_CHANNEL,
    KIND_NAMES,
)
from penstock.flow.pending import RABBITMQ_LIMIT

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class HopWindow:
    """Credit on one kind of hop: messages, and bytes; 0 and 0 switch a dimension off."""

    initial: int
    more_after: int
    bytes_initial: int = 0
    bytes_more_after: int = 0

    def windows(self) -> tuple[Window, Window]:
        """In messages and in bytes. Raises: OperatorError on a bad one (scenario 15)."""
        return (
            Window(self.initial, self.more_after, "messages"),
            Window(self.bytes_initial, self.bytes_more_after, "bytes"),
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """strategy_name: one of STRATEGIES; connection_channel, channel_queue, queue_store: credit on
    each kind of hop;
    is_parking: a publish for a blocked queue waits beside its connection, which reads on; without
    it a blocked channel keeps its grants back, so one slow queue holds its connection;
    is_depth_aware: a queue above its depth mark keeps its grants back;
    account_high_bytes, account_high_messages: debt of one connection above which it is not read,
    0 for no limit;
    unsent_deliveries: per queue and channel, not yet taken by the socket; unsent_deliveries_max: up
    to which these may become more while the socket takes them all at once, 0 for as they are;
    fair_bytes: quantum of fair shares between the publishers of a queue, 0 for none;
    target_ns, interval_ns: of the adaptive strategy;
    embed_below: messages with fewer bytes of body and properties cost no credit on their way to the
    store (S1, queue_index_embed_msgs_below), 0 for none;
    io_batch: positions that leave memory at a time at least, when a queue pages by RabbitMQ's rules
    (msg_store_io_batch_size, flow-semantics 6.6), 0 for a profile that pages by bytes;
    caps_passes: one pass is bounded by the window to the store, as from RabbitMQ 3.6.7 on;
    soft_limit: publishes of one channel on their way to one quorum queue above which the channel is
    held (seed S3, quorum_commands_soft_limit), 0 for none;
    mirror_credits: what a message costs its channel for each mirror of its queue, out of the window
    from channel to queue (seed S1; flow-semantics 2.6), 0 for nothing;
    broadcasts_flow: an alarm sends channel.flow to every channel, and holds nothing (seed S2);
    believes_deaths: x-death in what a client publishes is counted on when the message dies."""

    name: str
    strategy_name: str
    connection_channel: HopWindow
    channel_queue: HopWindow
    queue_store: HopWindow
    is_parking: bool
    is_depth_aware: bool
    account_high_bytes: int
    unsent_deliveries: int
    fair_bytes: int = 0
    unsent_deliveries_max: int = 0
    target_ns: int = TARGET_NS
    interval_ns: int = INTERVAL_NS
    account_high_messages: int = 0
    embed_below: int = 0
    io_batch: int = 0
    caps_passes: bool = False
    soft_limit: int = 0
    mirror_credits: int = 0
    believes_deaths: bool = False
    broadcasts_flow: bool = False

    @property
    def credit_initial(self) -> int:
        """Messages, on the hop from a channel to a queue; so are the next three."""
        return self.channel_queue.initial

    @property
    def credit_more_after(self) -> int:
        return self.channel_queue.more_after

    @property
    def credit_bytes_initial(self) -> int:
        return self.channel_queue.bytes_initial

    @property
    def credit_bytes_more_after(self) -> int:
        return self.channel_queue.bytes_more_after

    def pages_by_counts(self) -> bool:
        """Whether queues page by RabbitMQ's rules, so that its two settings mean something."""
        return self.io_batch > 0

    def has_credit(self) -> bool:
        """Whether its strategy grants credit, so that windows mean something."""
        return isinstance(self.strategy(), Credit)

    def window_of(self, kind: int) -> HopWindow:
        """The window of one kind of hop, KIND_* of flow/hop."""
        return (self.connection_channel, self.channel_queue, self.queue_store)[kind]

    def with_window(self, kind: int, window: HopWindow) -> "Profile":
        """This profile with another window on one kind of hop."""
        if kind == KIND_CONNECTION_CHANNEL:
            return replace(self, connection_channel=window)
        if kind == KIND_CHANNEL_QUEUE:
            return replace(self, channel_queue=window)
        return replace(self, queue_store=window)

    def with_messages(self, initial: int, more_after: int) -> "Profile":
        """This profile with another window in messages on both hops of a publish."""
        return self._on_both(lambda one: replace(one, initial=initial, more_after=more_after))

    def with_bytes(self, initial: int, more_after: int) -> "Profile":
        """This profile with another window in bytes on both hops of a publish."""
        return self._on_both(
            lambda one: replace(one, bytes_initial=initial, bytes_more_after=more_after)
        )

    def _on_both(self, change: Callable[[HopWindow], HopWindow]) -> "Profile":
        return replace(
            self,
            connection_channel=change(self.connection_channel),
            channel_queue=change(self.channel_queue),
        )

    def strategy(self) -> Strategy:
        """A fresh strategy with this profile's windows. Raises: OperatorError on a bad window, or
        on a strategy that there is not."""
        maker = STRATEGIES.get(self.strategy_name)
        if maker is None:
            raise OperatorError(
                f"flow strategy '{self.strategy_name}' of profile '{self.name}' is unknown; one "
                f"of: {', '.join(STRATEGIES)}"
            )
        return maker(self)


def _none(profile: Profile) -> Strategy:
    return Strategy("none")


def _credit(profile: Profile) -> Strategy:
    messages, bytes_ = profile.channel_queue.windows()
    return _by_kind(Credit("credit", messages, bytes_), profile)


def _adaptive(profile: Profile) -> Strategy:
    messages, bytes_ = profile.channel_queue.windows()
    strategy = Adaptive("adaptive", messages, bytes_)
    strategy.target_ns = profile.target_ns
    strategy.interval_ns = profile.interval_ns
    return _by_kind(strategy, profile)


def _by_kind(strategy: Credit, profile: Profile) -> Credit:
    strategy.is_fair = profile.fair_bytes > 0
    for kind in range(len(KIND_NAMES)):
        messages, bytes_ = profile.window_of(kind).windows()
        strategy.set_windows(kind, messages, bytes_)
    return strategy


def _debt(profile: Profile) -> Strategy:
    return Debt("debt")


STRATEGIES: Final[dict[str, Callable[[Profile], Strategy]]] = {
    "none": _none,
    "credit": _credit,
    "adaptive": _adaptive,
    "debt": _debt,
}

_OFF: Final = HopWindow(0, 0)
_OURS: Final = HopWindow(400, 200, 4 * MIB, 2 * MIB)
_FIRST: Final = HopWindow(32, 16, 32 * KIB, 16 * KIB)
"""What an adaptive hop begins with; a fast receiver raises it within milliseconds."""
_OUR_STORE: Final = HopWindow(4000, 800, 16 * MIB, 4 * MIB)
_WIDE_STORE: Final = HopWindow(65_536, 4096, 64 * MIB, 4 * MIB)
"""Granted by batches of the store (group_commit.BATCH_BYTES), of which it has two at a time."""
_UNSENT: Final = UNSENT_DELIVERIES.default

PENSTOCK: Final = Profile(
    "penstock",
    "credit",
    _OURS,
    _OURS,
    _OUR_STORE,
    True,
    True,
    32 * MIB,
    _UNSENT,
    8 * KIB,
    account_high_messages=100_000,
    unsent_deliveries_max=UNSENT_DELIVERIES_MAX.default,
)
ADAPTIVE: Final = replace(
    PENSTOCK, name="adaptive", strategy_name="adaptive", connection_channel=_FIRST,
    channel_queue=_FIRST, queue_store=_WIDE_STORE,
)  # fmt: skip
RABBITMQ_4: Final = Profile(
    "rabbitmq-4", "credit", HopWindow(400, 200), HopWindow(400, 200), HopWindow(4000, 800),
    False, False, 0, _UNSENT, embed_below=4096, io_batch=4096, caps_passes=True,
    soft_limit=RABBITMQ_LIMIT,
)  # fmt: skip
RABBITMQ_35: Final = Profile(
    "rabbitmq-3.5", "credit", HopWindow(200, 50), HopWindow(200, 50), HopWindow(2000, 500),
    False, False, 0, _UNSENT, embed_below=4096, io_batch=2048, believes_deaths=True,
    mirror_credits=2,
)  # fmt: skip
SYNDICATE: Final = Profile(
    "syndicate", "debt", _OFF, _OFF, _OFF, False, False, 0, 65_535, account_high_messages=100
)
NONE: Final = Profile("none", "none", _OFF, _OFF, _OFF, False, False, 0, 65_535)
RABBITMQ_15: Final = replace(NONE, name="rabbitmq-1.5", broadcasts_flow=True)

_ALL: Final = (PENSTOCK, ADAPTIVE, RABBITMQ_4, RABBITMQ_35, RABBITMQ_15, SYNDICATE, NONE)
PROFILES: Final = {profile.name: profile for profile in _ALL}

STATIC: Final = "static-"
STATIC_MESSAGES_MAX: Final = 1_000_000
STATIC_DIGITS_MAX: Final = 20
"""Python refuses to read some thousands in words of its own."""


def static_profile(messages: int) -> Profile:
    """`static-N`: our default with a window of N messages, 2..STATIC_MESSAGES_MAX, on both hops of
    a publish, granted by halves. The window in bytes stays, so N is the only difference."""
    profile = PENSTOCK.with_messages(messages, messages // 2)
    return replace(profile, name=f"{STATIC}{messages}", strategy_name="credit")


def profile_named(name: str) -> Profile:
    """The profile called `name`, or `static-N`. Raises: OperatorError naming the ones there are."""
    profile = PROFILES.get(name)
    if profile is not None:
        return profile
    number = name.removeprefix(STATIC)
    is_number = number != name and number.isdecimal() and len(number) <= STATIC_DIGITS_MAX
    if is_number and 2 <= int(number) <= STATIC_MESSAGES_MAX:
        return static_profile(int(number))
    raise OperatorError(
        f"flow profile '{name}' is unknown; one of: {', '.join(PROFILES)}, or {STATIC}N with a "
        f"window of N = 2..{STATIC_MESSAGES_MAX} messages"
    )
