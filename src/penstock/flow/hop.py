"""One directed sender -> receiver pair and its books, in messages and in bytes.

    initial = balance + in_flight + done + deferred                         (law 1)

    balance    what the sender may still hand over (negative after an overshoot)
    in_flight  charged and not yet repaid
    done       repaid and not yet granted (always below more_after)
    deferred   granted by the receiver but kept while its own gate is closed
`granted` counts every message of credit ever given back in this epoch, so that
    sent so far = granted + deferred + done + in_flight
An epoch counts the receiver's lives; a grant from an earlier life is ignored (law 8).
Wiring: a hop leads to a higher layer, so hops can never form a cycle (law 7, scenario 19).
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import OperatorError
from penstock.flow.gate import Deferred, Gate

LAYER_CONNECTION: Final = 0
LAYER_CHANNEL: Final = 1
LAYER_DEAD_LETTERS: Final = 2
"""Of a queue, towards other queues: never wired, so it has no window and can hold nobody."""
LAYER_QUEUE: Final = 3
LAYER_STORE: Final = 4

KIND_CONNECTION_CHANNEL: Final = 0
KIND_CHANNEL_QUEUE: Final = 1
KIND_QUEUE_STORE: Final = 2
KIND_NAMES: Final = ("connection_channel", "channel_queue", "queue_store")

HELD_RATE: Final = 1
HELD_PENDING: Final = 2
HELD_MIRROR: Final = 4
HELD_REASONS: Final = ("", "rate", "pending", "", "mirror")
"""By HELD_*: what the sender's gate is closed for."""


def kind_of(receiver_layer: int) -> int:
    """Which kind of hop leads to `receiver_layer`: windows are set by kind."""
    if receiver_layer >= LAYER_STORE:
        return KIND_QUEUE_STORE
    return KIND_CHANNEL_QUEUE if receiver_layer > LAYER_CHANNEL else KIND_CONNECTION_CHANNEL


class HopNotes:
    """What a strategy keeps about one hop, and nobody else looks at. Nominal base."""

    __slots__ = ()


class HopRoom:
    """What a receiver can take, shared by the hops that lead to it; flow/room has it. Nominal base.

    extra_bytes: what a message takes there beside its own; in_flight_bytes: of all these hops, that
    included; limit_bytes: how much that may be; is_tight: it was used up, and hops are open only
    for what they are lent."""

    __slots__ = ("extra_bytes", "in_flight_bytes", "is_tight", "limit_bytes")

    def __init__(self, extra_bytes: int) -> None:
        self.extra_bytes: i64 = extra_bytes
        self.in_flight_bytes: i64 = 0
        self.limit_bytes: i64 = 0
        self.is_tight = False

    def used(self, hop: "Hop", bytes_: i64) -> None:
        """A message of `bytes_` was handed over to `hop` while it is tight; hop.size_bytes is what
        it takes here."""
        raise NotImplementedError

    def tighten(self) -> None:
        """The last of it was used."""
        raise NotImplementedError


class Hop(Deferred):
    """kind: KIND_*, by where it leads; sender_gate: closed for "credit" while the balance is used
    up; receiver_gate: while it is closed, grants are deferred; `window_*` and `more_*`: see
    credit.Window, 0 for unlimited. is_spent: closed for want of credit; held: HELD_*, of rules that
    keep it closed; is_closed: by either, nothing is handed over; is_fair: the receiver gives each
    of its senders as many bytes. blocks: how often it was closed for want of credit or room, and
    spent_count: of credit alone.

    room: of the receiver, None without a mark; is_shut: that is tight and has lent it nothing to
    hand over, which counts as spent; size_bytes: what the last message takes there; next_size: what
    the one that waits takes, as far as it is known. While the room is tight:
    lent_bytes, since lent_round; tag: its place in line, is_lined with line_number; is_asked: its
    sender has asked for it."""

    __slots__ = (
        "balance",
        "balance_bytes",
        "blocks",
        "deferred",
        "deferred_bytes",
        "done",
        "done_bytes",
        "epoch",
        "granted",
        "held",
        "in_flight",
        "in_flight_bytes",
        "is_asked",
        "is_closed",
        "is_fair",
        "is_lined",
        "is_shut",
        "is_spent",
        "kind",
        "lent_bytes",
        "lent_round",
        "line_number",
        "more_after",
        "more_after_bytes",
        "next_size",
        "notes",
        "receiver",
        "receiver_gate",
        "room",
        "sender",
        "sender_gate",
        "size_bytes",
        "spent_count",
        "tag",
        "window",
        "window_bytes",
    )

    def __init__(
        self,
        sender: str,
        sender_layer: int,
        sender_gate: Gate,
        receiver: str,
        receiver_layer: int,
        receiver_gate: Gate,
    ) -> None:
        if sender_layer >= receiver_layer:
            raise OperatorError(
                f"hop {sender} -> {receiver} refused: it leads from layer {sender_layer} to layer "
                f"{receiver_layer}, and hops must lead downstream so that they cannot form a cycle"
            )
        self.kind: i64 = kind_of(receiver_layer)
        self.sender = sender
        self.receiver = receiver
        self.sender_gate = sender_gate
        self.receiver_gate = receiver_gate
        self.window: i64 = 0
        self.more_after: i64 = 0
        self.window_bytes: i64 = 0
        self.more_after_bytes: i64 = 0
        self.balance: i64 = 0
        self.balance_bytes: i64 = 0
        self.in_flight: i64 = 0
        self.in_flight_bytes: i64 = 0
        self.done: i64 = 0
        self.done_bytes: i64 = 0
        self.deferred: i64 = 0
        self.deferred_bytes: i64 = 0
        self.epoch: i64 = 0
        self.granted: i64 = 0
        self.blocks: i64 = 0
        self.held: i64 = 0
        self.notes: HopNotes | None = None
        self.spent_count: i64 = 0
        self.room: HopRoom | None = None
        self.lent_bytes: i64 = 0
        self.lent_round: i64 = 0
        self.line_number: i64 = 0
        self.size_bytes: i64 = 0
        self.next_size: i64 = 0
        self.tag: i64 = 0
        # Side by side, also with those of lanes, because each takes a byte and no place of its own.
        self.is_closed = False
        self.is_spent = False
        self.is_fair = False
        self.is_shut = False
        self.is_lined = False
        self.is_asked = False

    @property
    def name(self) -> str:
        """Whose it is, as messages of faults show it."""
        return f"{self.sender} -> {self.receiver}"

    def next_bytes(self) -> i64:
        """Bytes of what waits on the sender's side and is handed over next, 0 if nothing does."""
        return 0

    def set_window(self, window: int, more_after: int, window_bytes: int, more_bytes: int) -> None:
        """Give the hop its window, or change it live: the balance moves by the difference and may
        become negative, in which case the sender waits until enough was repaid (scenario 120)."""
        self.balance += window - self.window
        self.balance_bytes += window_bytes - self.window_bytes
        self.window = window
        self.more_after = more_after
        self.window_bytes = window_bytes
        self.more_after_bytes = more_bytes
        # What is due by a smaller `more_after` cannot wait for a repay that may never come.
        self.grant_due()
        self.settle()

    def settle(self) -> None:
        """Close or open the sender's gate as the balances and the room now say."""
        has_no_credit = (self.window > 0 and self.balance <= 0) or (
            self.window_bytes > 0 and self.balance_bytes <= 0
        )
        spent = has_no_credit or self.is_shut
        if spent and not self.is_spent:
            self.is_spent = True
            self.is_closed = True
            self.blocks += 1
            if has_no_credit:
                self.spent_count += 1
            self.sender_gate.close(self.receiver, "credit")
        elif self.is_spent and not spent:
            self.is_spent = False
            self.is_closed = self.held != 0
            self.sender_gate.open(self.receiver, "credit")

    def hold(self, rule: i64, peer: str) -> None:
        """Nothing more may be handed over, because of `peer`: by HELD_RATE its rate limit is used
        up, by HELD_PENDING it has not answered for too
        many, by HELD_MIRROR its mirrors have not."""
        if self.held & rule == 0:
            self.held |= rule
            self.is_closed = True
            self.sender_gate.hold(peer, HELD_REASONS[rule])

    def let_on(self, rule: i64, peer: str) -> None:
        """`peer` holds nobody any more by `rule`; another rule, or want of credit, may still keep
        the hop closed."""
        if self.held & rule != 0:
            self.held &= ~rule
            self.is_closed = self.is_spent or self.held != 0
            self.sender_gate.let_on(peer, HELD_REASONS[rule])

    def grant_due(self) -> None:
        """The receiver grants what it has repaid, in whole quanta; keeps it while it is held."""
        granted: i64 = 0
        granted_bytes: i64 = 0
        if self.window == 0:
            granted = self.done
        elif self.done >= self.more_after:
            granted = self.done - self.done % self.more_after
        if self.window_bytes == 0:
            granted_bytes = self.done_bytes
        elif self.done_bytes >= self.more_after_bytes:
            granted_bytes = self.done_bytes - self.done_bytes % self.more_after_bytes
        if granted == 0 and granted_bytes == 0:
            return
        if self.is_fair:
            # Or what is kept would have bytes of messages that were granted long ago.
            along = self.done_bytes * granted // self.done if granted > 0 else 0
            if along > granted_bytes:
                granted_bytes = along
            elif self.done_bytes > 0:
                along = self.done * granted_bytes // self.done_bytes
                if along > granted:
                    granted = along
        self.done -= granted
        self.done_bytes -= granted_bytes
        if self.receiver_gate.is_granting:
            self.grant(granted, granted_bytes, self.epoch)
            return
        if self.deferred == 0 and self.deferred_bytes == 0:
            self.receiver_gate.defer(self, self.sender, int(granted))
        self.deferred += granted
        self.deferred_bytes += granted_bytes

    def grant(self, messages: i64, bytes_: i64, epoch: i64) -> None:
        """A grant arrives at the sender. One from an earlier `epoch` is ignored (scenario 12)."""
        if epoch != self.epoch:
            return
        self.granted += messages
        self.balance += messages
        self.balance_bytes += bytes_
        if self.is_spent:
            self.settle()

    def release(self) -> None:
        """The receiver's gate opened: send what was deferred."""
        messages = self.deferred
        bytes_ = self.deferred_bytes
        if self.is_fair:
            messages += self.done
            bytes_ += self.done_bytes
            self.done = 0
            self.done_bytes = 0
        self.deferred = 0
        self.deferred_bytes = 0
        self.grant(messages, bytes_, self.epoch)

    def repaid(self) -> int:
        """Messages the receiver has finished in this epoch; it stands still while it does not."""
        return int(self.granted + self.deferred + self.done)

    def check(self) -> None:
        """Assert law 1 in both dimensions. Raises: AssertionError naming the hop."""
        if self.window > 0:
            total = self.balance + self.in_flight + self.done + self.deferred
            assert total == self.window, (
                f"{self.name}: {total} messages on the books, not {self.window}"
            )
        if self.window_bytes > 0:
            total = (
                self.balance_bytes + self.in_flight_bytes + self.done_bytes + self.deferred_bytes
            )
            assert total == self.window_bytes, (
                f"{self.name}: {total} bytes, not {self.window_bytes}"
            )
