"""A channel's transaction: publishes and settles that wait for tx.commit.

Bounds: TX_MESSAGES_MAX publishes and settles together, TX_BYTES_MAX bytes of publishes; beyond
either, 406 PRECONDITION_FAILED closes the channel. Source: AMQP 0-9-1 class tx.
"""

from typing import Final

from penstock.base.errors import ChannelFault
from penstock.base.limits import TX_BYTES_MAX, TX_MESSAGES_MAX
from penstock.broker.actors.lane import Lane
from penstock.protocol.content import Message

ACK: Final = 0
REQUEUE: Final = 1
DROP: Final = 2
WAYS_MOST: Final = 256


class Settle:
    """One settle that waits: `tag`, `is_multiple` as in basic.ack, `action`: ACK, REQUEUE, DROP."""

    __slots__ = ("action", "is_multiple", "tag")

    def __init__(self, tag: int, is_multiple: bool, action: int) -> None:
        self.tag = tag
        self.is_multiple = is_multiple
        self.action = action


class Committing:
    """A tx.commit that has begun: its publishes, then its settles. messages, settles: all of them;
    published, settled: how many of them are done."""

    __slots__ = ("messages", "published", "settled", "settles")

    def __init__(self, messages: list[Message], settles: list[Settle]) -> None:
        self.messages = messages
        self.settles = settles
        self.published = 0
        self.settled = 0

    def next_message(self) -> Message | None:
        """The next publish; None when there are only settles left."""
        if self.published == len(self.messages):
            return None
        self.published += 1
        return self.messages[self.published - 1]

    def next_settle(self) -> Settle | None:
        """The next settle; None when there is none."""
        if self.settled == len(self.settles):
            return None
        self.settled += 1
        return self.settles[self.settled - 1]

    def give_up(self) -> None:
        """Do nothing more of it."""
        self.published = len(self.messages)
        self.settled = len(self.settles)

    def has_more(self) -> bool:
        return self.published < len(self.messages) or self.settled < len(self.settles)


class Transaction:
    """What waits, in the order it came. `tags`, `tags_up_to`: what its settles have named;
    committing: the commit of what came before, while that is done piece by piece; ways: where its
    publishes go, by the bytes of their methods: how large the first one is, of WAYS_MOST ways;
    waits_for: the hop that its commit waits for, passed: those that it has waited for;
    fault: what the channel closes with when the commit is done, None for nothing."""

    __slots__ = (
        "bytes",
        "committing",
        "fault",
        "messages",
        "passed",
        "settles",
        "tags",
        "tags_up_to",
        "waits_for",
        "ways",
    )

    def __init__(self) -> None:
        self.committing: Committing | None = None
        self.fault: ChannelFault | None = None
        self.ways: dict[bytes, int] = {}
        self.waits_for: Lane | None = None
        self.passed: set[Lane] = set()
        self.messages: list[Message] = []
        self.settles: list[Settle] = []
        self.tags: set[int] = set()
        self.tags_up_to = 0
        self.bytes = 0

    def publish(self, message: Message) -> None:
        """Keep a publish. Raises: ChannelFault 406 at the bound."""
        self.bytes += len(message.raw)
        self.messages.append(message)
        method = message.address.method
        if method not in self.ways and len(self.ways) < WAYS_MOST:
            self.ways[method] = len(message.raw)
        self._check()

    def settle(self, tag: int, is_multiple: bool, action: int) -> None:
        """Keep a settle. tag: 1.., or 0 for none. Raises: ChannelFault 406 at the bound."""
        self.settles.append(Settle(tag, is_multiple, action))
        if is_multiple:
            self.tags_up_to = max(self.tags_up_to, tag)
        else:
            self.tags.add(tag)
        self._check()

    def is_settled(self, tag: int) -> bool:
        """Whether a settle that waits has named `tag`: to name it again is a fault."""
        return tag <= self.tags_up_to or tag in self.tags

    def begin_commit(self) -> Committing:
        """All of it is committed from now on; what comes next is another transaction."""
        committing = Committing(self.messages, self.settles)
        self.committing = committing
        self.clear()
        return committing

    def has_begun(self) -> bool:
        """Whether a commit has begun, and is not done."""
        return self.committing is not None

    def next_hop(self, closed: list[Lane]) -> Lane | None:
        """Which of the `closed` hops that its publishes go to the commit waits for. It waits for
        each once, or it might be closed again while the others are waited for, and so on."""
        waited = self.waits_for
        if waited is not None and waited not in closed:
            self.passed.add(waited)
            self.waits_for = None
        for lane in closed:
            if lane not in self.passed:
                self.waits_for = lane
                return lane
        return None

    def clear(self) -> None:
        self.ways = {}
        self.waits_for = None
        self.passed = set()
        self.messages = []
        self.settles = []
        self.tags = set()
        self.tags_up_to = 0
        self.bytes = 0

    def _check(self) -> None:
        count = len(self.messages) + len(self.settles)
        if count > TX_MESSAGES_MAX.default or self.bytes > TX_BYTES_MAX.default:
            raise ChannelFault(
                406,
                f"transaction of {count} publishes and settles, {self.bytes} bytes, is larger than "
                f"{TX_MESSAGES_MAX.default} or {TX_BYTES_MAX.default} bytes; commit more often",
                90,
                20,
            )
