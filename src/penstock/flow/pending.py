"""What a channel has on its way to a replicated queue: the soft limit, and credit of mirrors.

The soft limit bounds what a quorum queue was handed and has not applied yet:

    the sender hands over the (limit + 1)th   ->  its hop is closed for "pending"
    fewer than `limit` are pending            ->  it is open again
So with a limit of 32 the 33rd holds, and 31 let go. Pending is what lies in the queue's mailbox and
what the queue has taken and the disk, or a majority of disks, has not confirmed; so every hold has
an owner that ends it: the store that answers, the queue that goes, or the channel that ends.

What tx.commit hands over counts like any publish. RabbitMQ counts settles as commands, too, and
there a settle may cross the limit without holding anybody, after which no publish ever does (8.2
H1). Here a settle is no command: it joins the next batch of the store whatever is pending, and
nothing waits for it. So that hole is in no profile. Dead letters have a window of their own.

A mirrored queue of RabbitMQ 3.5 costs its channel credit of a window of its own for each mirror,
two a message: one for the channel's copy, one for the leader's. Mirrors take in the same order, so
the one that is furthest behind decides, and one account does for all of them.
Source: flow-semantics 2.6, 7, 8.1, 8.2, 16 (W12); seeds S1, S3; scenarios 46, 77-82.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import SOFT_LIMIT
from penstock.flow.hop import HELD_MIRROR, HELD_PENDING, Hop

RABBITMQ_LIMIT: Final = 32
"""quorum_commands_soft_limit since RabbitMQ 3.8.4."""


class SoftLimit:
    """limit: publishes of one channel for one replicated queue, 0 for no limit. One for all queues
    of a broker, so that a change holds for what is handed over or confirmed next."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        assert 0 <= limit <= SOFT_LIMIT.highest, "settings check that"
        self.limit: i64 = limit


class Commands:
    """What one channel has on its way into one replicated queue. hop: from the channel to the
    queue; holder: who is waited for, which is where the queue's log is written; taken: publishes
    that the queue has taken and that are not safe; is_over: either end is gone."""

    __slots__ = ("holder", "hop", "is_over", "rule", "taken")

    def __init__(self, hop: Hop, holder: str, rule: SoftLimit) -> None:
        self.hop = hop
        self.holder = holder
        self.rule = rule
        self.taken: i64 = 0
        self.is_over = False

    def pending(self) -> i64:
        """How many publishes are on their way."""
        return self.hop.in_flight + self.taken

    def handed(self) -> None:
        """The books of the hop have something more in flight."""
        limit: i64 = self.rule.limit
        if limit > 0 and self.hop.in_flight + self.taken > limit and not self.is_over:
            self.hop.hold(HELD_PENDING, self.holder)

    def took(self, count: i64) -> None:
        """The queue has taken `count`, and repays the hop for them before this turn ends."""
        self.taken += count

    def settled(self) -> None:
        """The queue has repaid the hop: some of it may not have to be safe, and is not pending."""
        hop = self.hop
        if hop.held & HELD_PENDING == 0:
            return
        limit: i64 = self.rule.limit
        if limit == 0 or hop.in_flight + self.taken < limit:
            hop.let_on(HELD_PENDING, self.holder)

    def applied(self, count: i64) -> None:
        """`count` are safe."""
        self.taken -= count
        assert self.taken >= 0, "each is taken once and applied once"
        self.settled()

    def ended(self) -> None:
        """The channel or the queue is gone: nobody is held. What was taken is answered all the
        same, and nothing more is handed over."""
        self.is_over = True
        self.hop.let_on(HELD_PENDING, self.holder)


class MirrorCredit(Commands):
    """The same for a mirrored queue, whose mirrors give the windows of the hop once more. cost: of
    one message; done: credit that was repaid and not yet given back."""

    __slots__ = ("cost", "done")

    def __init__(self, hop: Hop, holder: str, cost: int) -> None:
        super().__init__(hop, holder, SoftLimit(0))
        self.cost: i64 = cost
        self.done: i64 = 0

    def credit(self) -> i64:
        """What the mirror that is furthest behind has left, negative after an overshoot."""
        return self.hop.window - self.cost * self.pending() - self.done

    def handed(self) -> None:
        if self.hop.window > 0 and self.credit() <= 0 and not self.is_over:
            self.hop.hold(HELD_MIRROR, self.holder)

    def settled(self) -> None:
        """What the queue has taken is not at its mirrors for that."""

    def applied(self, count: i64) -> None:
        self.taken -= count
        assert self.taken >= 0, "each is taken once and applied once"
        self.done += self.cost * count
        if self.done >= self.hop.more_after:
            self.done = self.done % self.hop.more_after if self.hop.more_after > 0 else 0
        if self.credit() > 0:
            self.hop.let_on(HELD_MIRROR, self.holder)

    def ended(self) -> None:
        self.is_over = True
        self.hop.let_on(HELD_MIRROR, self.holder)
