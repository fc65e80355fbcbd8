"""How much the connections of a node may park, and what each of them has parked by queue.

The lots share the node's room: a lot may grow as long as it has no more than is still free, so one
that was there first cannot keep the others out (Choudhury and Hahne 1998, dynamic thresholds). The
first publish of the first line is always taken. On a connection where nobody would stand behind
another, because all it does is publish to one queue without confirms, it is the only one: what is
held there belongs into its client. Source: docs/strategies.md. COMPILED.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.base.limits import PARKED_BYTES, PARKED_NODE_BYTES
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.queues.policy_keys import FULL_ACTIONS
from penstock.telemetry.accounting import BlockLedger, ParkedLedger

CREDIT: Final = "credit"

STOP, NACK, CLOSE = FULL_ACTIONS

PARKED_OVERHEAD_BYTES: Final = 240
"""What a parked publish costs beside its frames: the message, its place, and its number among the
unconfirmed ones."""

FREED_SHARE: Final = 64
"""Lots that wait for room of the node are asked again when this part of it has become free."""


def parked_size(message: Message) -> i64:
    """Bytes that `message` counts for while it is parked."""
    size: i64 = len(message.raw)
    return size + PARKED_OVERHEAD_BYTES


def parked_books(books: BlockLedger, now_ns: int) -> ParkedLedger:
    """Where the time of parked publishes counts, of the actor that has these `books`."""
    found = books.parked
    if found is None:
        found = ParkedLedger(books, now_ns)
        books.parked = found
    return found


class ParkedLine:
    """What a channel has parked for one queue: items, oldest first from `head`.

    owner: the channel; bytes: what they count for; since_ns: when the line began; reason: of the
    gate, then; held_by: the peer and reason it waits for now; is_opened: the queue takes again, or
    is gone.
    """

    __slots__ = (
        "bytes",
        "head",
        "held_by",
        "is_opened",
        "items",
        "lane",
        "owner",
        "reason",
        "since_ns",
    )

    def __init__(self, owner: Actor, lane: Lane, since_ns: i64) -> None:
        self.owner = owner
        self.lane = lane
        self.items: list[Message] = []
        self.head: i64 = 0
        self.bytes: i64 = 0
        self.since_ns: i64 = since_ns
        self.reason = CREDIT
        self.held_by = ("", "")
        self.is_opened = False

    def count(self) -> i64:
        """Publishes in it."""
        return len(self.items) - self.head

    def next_bytes(self) -> i64:
        """Of the first publish in it, 0 if there is none."""
        return len(self.items[self.head].raw) if self.head < len(self.items) else 0

    def waiting(self) -> list[Message]:
        """Them, oldest first."""
        return self.items[self.head :]


class NodeParking:
    """The room that all lots of a node share.

    bytes: parked in all lots; bytes_max: how many there may be; lot_bytes_max: of one lot;
    waiting: lots that were refused for want of it; wake_at: bytes at which they are asked again.
    """

    __slots__ = ("bytes", "bytes_max", "lot_bytes_max", "waiting", "wake_at")

    def __init__(
        self,
        bytes_max: int = PARKED_NODE_BYTES.default,
        lot_bytes_max: int = PARKED_BYTES.default,
    ) -> None:
        self.bytes: i64 = 0
        self.bytes_max: i64 = bytes_max
        self.lot_bytes_max: i64 = lot_bytes_max
        self.waiting: dict[ParkingLot, None] = {}
        self.wake_at: i64 = 0

    def wait(self, lot: "ParkingLot") -> None:
        """`lot` is asked again when a part of the room is free that is worth it, counted from the
        last one that was refused: what others have parked since the first was may stay for ever."""
        wake_at: i64 = self.bytes - self.bytes_max // FREED_SHARE
        if wake_at > self.wake_at or not self.waiting:
            self.wake_at = wake_at
        self.waiting[lot] = None

    def wake(self) -> None:
        """Room has become free."""
        if self.bytes > self.wake_at and self.bytes > 0:
            return
        waiting = list(self.waiting)
        self.waiting.clear()
        for lot in waiting:
            lot.wake()


class FullActions:
    """What happens to a publish that waits for a queue when there is no room to park it.

    stop    its channel takes nothing more, and then the connection is not read (the default)
    nack    on a confirming channel it is answered basic.nack; otherwise stop
    close   406 closes its channel

    default: where no row fits; the first row that fits counts. Raises: OperatorError.
    """

    __slots__ = ("default", "rows")

    def __init__(self, default: str, rows: tuple[AlarmAction, ...]) -> None:
        self.default = known_action(default)
        self.rows = rows
        for row in rows:
            known_action(row.action)

    def of(self, vhost: str, user: str) -> str:
        """For publishes of `user` in `vhost`."""
        for row in self.rows:
            if row.vhost in ("", vhost) and row.user in ("", user):
                return row.action
        return self.default


def known_action(text: str) -> str:
    """`text` if it is an action. Raises: OperatorError naming those that there are."""
    if text not in FULL_ACTIONS:
        raise OperatorError(f"parked_full '{text}' is unknown; one of: {', '.join(FULL_ACTIONS)}")
    return text


class ParkingLot:
    """What the channels of one connection have parked.

    account: pays for it; books: of the connection, where the time of what waits counts; node: the
    room it shares; bytes, messages: parked; lines: of all its
    channels, by lane; is_shared: the connection has confirms, consumers, a second queue it
    publishes to, or a second channel, or had; waiting: channels that stand behind a publish for
    which there was no room; freed: called when there may be room; full_action: STOP, NACK or CLOSE,
    where no policy (`parked-full`) says otherwise of the queue that the publish waits for.
    """

    __slots__ = (
        "account",
        "books",
        "bytes",
        "freed",
        "full_action",
        "is_shared",
        "lines",
        "messages",
        "node",
        "waiting",
    )

    def __init__(self, account: Account, node: NodeParking, books: BlockLedger) -> None:
        self.account = account
        self.books = books
        self.node = node
        self.bytes: i64 = 0
        self.messages: i64 = 0
        self.lines: dict[Lane, ParkedLine] = {}
        self.is_shared = False
        self.full_action = STOP
        self.waiting: dict[Actor, None] = {}
        self.freed: Callable[[], None] | None = None

    def has_room(self, bytes_: i64) -> bool:
        """Whether so many may be added to a line; while there is none, one publish may begin it,
        whatever its size."""
        return not self.lines or (self.is_shared and self._fits(bytes_))

    def has_place(self, bytes_: i64) -> bool:
        """Whether so many may wait at the entrance of a channel."""
        return not self.is_shared or self.bytes == 0 or self._fits(bytes_)

    def _fits(self, bytes_: i64) -> bool:
        after: i64 = self.bytes + bytes_
        node = self.node
        return after <= node.lot_bytes_max and after <= node.bytes_max - node.bytes

    def share(self) -> None:
        """Somebody on the connection would stand behind what is held for one queue."""
        if not self.is_shared:
            self.is_shared = True
            self.wake()

    def room_bytes(self) -> i64:
        """How many more it may take now, beside the one that an empty lot takes."""
        if not self.is_shared:
            return 0
        node = self.node
        own: i64 = node.lot_bytes_max - self.bytes
        # What it takes is taken from both sides of the node's rule.
        shared: i64 = (node.bytes_max - node.bytes - self.bytes) // 2
        room: i64 = own if own < shared else shared
        return room if room > 0 else 0

    def charge(self, messages: i64, bytes_: i64) -> None:
        """So much is parked from now on."""
        self.messages += messages
        self.bytes += bytes_
        self.node.bytes += bytes_
        self.account.park(messages, bytes_)

    def repay(self, messages: i64, bytes_: i64) -> None:
        """It has left, wherever to; `note_freed` comes after the last of a batch."""
        self.messages -= messages
        self.bytes -= bytes_
        self.node.bytes -= bytes_
        self.account.unpark(messages, bytes_)

    def wait(self, actor: Actor) -> None:
        """`actor` is woken when there may be room."""
        self.waiting[actor] = None
        self.node.wait(self)

    def note_freed(self) -> None:
        """Something has left: others may have room."""
        self.wake()
        if self.node.waiting:
            self.node.wake()

    def wake(self) -> None:
        """There may be room for those that wait for it here."""
        if self.waiting:
            waiting = list(self.waiting)
            self.waiting.clear()
            for actor in waiting:
                actor.wake()
        if self.freed is not None:
            self.freed()

    def wake_lines(self) -> None:
        """The account is not held any more: whose queue takes again may go on."""
        for line in self.lines.values():
            if line.is_opened:
                line.owner.wake()

    def leave(self, actor: Actor) -> None:
        """`actor` waits for nothing any more."""
        self.waiting.pop(actor, None)

    def close(self) -> None:
        """The connection has ended, and with it all that was parked."""
        self.freed = None
        self.waiting.clear()
        self.node.waiting.pop(self, None)

    def line_of(self, lane: Lane) -> "ParkedLine | None":
        """What waits for `lane`; None if nothing does."""
        return self.lines.get(lane)

    def largest(self) -> "ParkedLine | None":
        """The line with the most bytes; None without any."""
        found: ParkedLine | None = None
        for line in self.lines.values():
            if found is None or line.bytes > found.bytes:
                found = line
        return found
