"""RabbitMQ's rules of paging for one queue: when it pages, how much, and in which order.

    report      every 5 s: rates of the queue, and for how long its memory would last
    aim         the node's desired duration becomes a target; only a smaller one pages at once
    reduce      one pass: unanswered deliveries and messages by quota, then positions in chunks
A pass is made when the target falls, after publishes and requeues, and when the store grants
credit; never when messages leave. From 3.8 on a pass is capped, and the queue reminds itself to go
on (scenario 44). Source: flow-semantics 6.2 to 6.6
(rabbit_memory_monitor, rabbit_variable_queue 3.5.5, 3.8).
"""

from math import exp, inf, log
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.backlog import Paged
from penstock.queues.consumers import Delivery
from penstock.queues.line import MessageLine

SEGMENT_ENTRIES: Final = 16_384
"""Of RabbitMQ's queue index: fewer betas are always permitted."""
UNBOUNDED: Final = 1 << 62
"""A target, or a number of permitted betas, that is never reached: nothing is paged (P5)."""
FIRM_RATIO: Final = 0.95
"""Of memory used; below it one more second is allowed."""
HALF_LIFE_S: Final = 5.0
RATE_MIN: Final = 0.01
"""In 1/s; a rate below counts as none."""
OPERATIONS_CAPPED: Final = 1000
"""Publishes and requeues between two passes where passes are capped (3.8)."""
NS_PER_S: Final = 1_000_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingAcks:
    """What of a queue is out with consumers and unanswered. Nominal base; the broker's looks at its
    channels."""

    __slots__ = ()

    def whole_count(self) -> i64:
        """Deliveries whose bodies are in memory and are not embedded (entry.is_embedded)."""
        return 0

    def newest(self, count: i64) -> list[Delivery]:
        """Up to `count` of those, the newest first."""
        return []

    def replace(self, delivery: Delivery, stub: Message) -> None:
        """Let `stub` stand for the message of `delivery`; what is counted as unanswered becomes
        less by its frames."""
        raise NotImplementedError


class Traffic:
    """What a queue has done since it was declared: messages in (published and requeued), out (taken
    from it), deliveries that need an answer, answers."""

    __slots__ = ("ack_in", "ack_out", "came", "went")

    def __init__(self, came: int, went: int, ack_in: int, ack_out: int) -> None:
        self.came = came
        self.went = went
        self.ack_in = ack_in
        self.ack_out = ack_out


class Reduction:
    """What a pass has done. to_save: messages to be appended to the queue's `spill`, in this order;
    charged: how many of them cost credit; messages, acks, positions: how many bodies of messages
    and of unanswered deliveries went, and how many positions; has_more: the cap ended it, so there
    has to be another one."""

    __slots__ = ("acks", "charged", "has_more", "messages", "positions", "to_save")

    def __init__(self) -> None:
        self.to_save: list[Message] = []
        self.charged: i64 = 0
        self.messages: i64 = 0
        self.acks: i64 = 0
        self.positions: i64 = 0
        self.has_more = False


class RabbitPaging:
    """batch: positions that leave at a time at least (msg_store_io_batch_size); embed_below: bytes
    (queue_index_embed_msgs_below); most: messages of one pass at most, UNBOUNDED before 3.8;
    target: messages in memory; rate_*: in 1/s; operations: since the last pass."""

    __slots__ = (
        "ack_ram_before",
        "batch",
        "embed_below",
        "most",
        "operations",
        "ram_before",
        "rate_ack_in",
        "rate_ack_out",
        "rate_in",
        "rate_out",
        "reported_ns",
        "target",
        "traffic",
    )

    def __init__(self, batch: int, embed_below: int, most: int, now_ns: int) -> None:
        self.batch: i64 = batch
        self.embed_below: i64 = embed_below
        self.most: i64 = most
        self.target: i64 = UNBOUNDED
        self.rate_in = 0.0
        self.rate_out = 0.0
        self.rate_ack_in = 0.0
        self.rate_ack_out = 0.0
        self.reported_ns = now_ns
        self.traffic = Traffic(0, 0, 0, 0)
        self.ram_before = 0
        self.ack_ram_before = 0
        self.operations: i64 = 0

    def rate(self) -> float:
        """The sum of the four rates, in 1/s."""
        return self.rate_in + self.rate_out + self.rate_ack_in + self.rate_ack_out

    def report(self, now_ns: int, traffic: Traffic, ram: int, ack_ram: int) -> float:
        """Reckon the rates anew; for how many seconds what is in memory would last, `inf` for a
        queue without traffic. ram, ack_ram: messages and unanswered deliveries in memory now."""
        seconds = (now_ns - self.reported_ns) / NS_PER_S
        if seconds > 0:
            last = self.traffic
            self.rate_in = next_rate(self.rate_in, traffic.came - last.came, seconds)
            self.rate_out = next_rate(self.rate_out, traffic.went - last.went, seconds)
            self.rate_ack_in = next_rate(self.rate_ack_in, traffic.ack_in - last.ack_in, seconds)
            self.rate_ack_out = next_rate(
                self.rate_ack_out, traffic.ack_out - last.ack_out, seconds
            )
            self.traffic = traffic
            self.reported_ns = now_ns
        duration = own_duration_s(ram, self.ram_before, ack_ram, self.ack_ram_before, self.rate())
        self.ram_before = ram
        self.ack_ram_before = ack_ram
        return duration

    def aim(self, desired_s: float) -> bool:
        """The node wants queues to hold `desired_s` seconds of their traffic, `inf` for no bound.
        True if the target fell, and there has to be a pass now (scenario 42)."""
        target = inf if desired_s == inf else target_count(desired_s, self.rate())
        before: i64 = self.target
        self.target = UNBOUNDED if target == inf else int(target)
        return self.target < before

    def moved(self, count: i64) -> bool:
        """`count` messages were published or requeued: whether that calls for a pass."""
        if self.target == UNBOUNDED or count == 0:
            return False
        self.operations += count
        if self.most < UNBOUNDED and self.operations < OPERATIONS_CAPPED:
            return False
        self.operations = 0
        return True

    def reduce(self, messages: MessageLine, acks: PendingAcks, credit: i64) -> Reduction:
        """One pass. credit: towards the store, below 1 while the queue is blocked by anybody; the
        half of the unanswered deliveries does not look at it and may overdraw it (scenario 33)."""
        done = Reduction()
        if self.target == UNBOUNDED:
            return done
        self._page_bodies(messages, acks, credit, done)
        beta_count: i64 = len(messages.behind.q2) + len(messages.behind.q3)
        permitted: i64 = permitted_betas(
            int(messages.ready_count()),
            int(beta_count + messages.behind.delta.count),
            len(messages.behind.q3),
            int(self.target),
        )
        most: i64 = self.most
        if beta_count - permitted >= self.batch and beta_count - permitted > most:
            done.has_more = True
        done.positions = messages.page_positions(permitted, self.batch, most, SEGMENT_ENTRIES)
        # RabbitMQ reminds itself also when nothing could go, and spins; here the next publish will.
        if done.messages + done.acks + done.positions == 0 or credit <= done.charged:
            done.has_more = False
        return done

    def _page_bodies(
        self, messages: MessageLine, acks: PendingAcks, credit: i64, done: Reduction
    ) -> None:
        quota: i64 = quota_of(int(messages.ram_count()), int(acks.whole_count()), int(self.target))
        if quota > self.most:
            quota = self.most
            done.has_more = True
        if quota == 0:
            return
        if has_acks_first(self.rate_in, self.rate_out, self.rate_ack_in, self.rate_ack_out):
            quota -= self._page_acks(messages, acks, quota, done)
            self._page_messages(messages, quota, credit - done.charged, done)
        else:
            quota -= self._page_messages(messages, quota, credit, done)
            self._page_acks(messages, acks, quota, done)

    def _page_messages(
        self, messages: MessageLine, quota: i64, credit: i64, done: Reduction
    ) -> i64:
        paged = messages.page_bodies_count(quota, self.target, credit, self.embed_below)
        done.messages = paged.count
        done.charged += len(paged.charged)
        done.to_save.extend(paged.in_order())
        return paged.count

    def _page_acks(
        self, messages: MessageLine, acks: PendingAcks, quota: i64, done: Reduction
    ) -> i64:
        """Unanswered deliveries, the newest first (scenario 36); each costs one of the quota."""
        paged = Paged()
        for delivery in acks.newest(quota):
            acks.replace(delivery, messages.page_out(delivery.message, paged))
        done.acks = paged.count
        done.charged += len(paged.charged)
        # In the order in which they will be read, should they come back.
        paged.charged.reverse()
        done.to_save.extend(paged.charged)
        return paged.count


# -- numbers: each function is pure ----------------------------------------------------------------


def desired_duration_s(
    used_bytes: int,
    limit_bytes: int,
    paging_ratio: float,
    durations_s: list[float],
    has_disk_alarm: bool,
) -> float:
    """For how many seconds of its traffic a queue may hold messages in memory; `inf` for no bound.

    limit_bytes: the memory mark, 0 for none at all; durations_s: what queues have reported, those
    without traffic left out. Scenarios 40, 41.
    """
    if has_disk_alarm:
        return inf
    if limit_bytes == 0:
        return 0.0
    ratio = used_bytes / limit_bytes
    if ratio < paging_ratio or not durations_s:
        return inf
    total = sum(durations_s)
    if ratio < FIRM_RATIO:
        total += 1.0
    return total / len(durations_s) / ratio


def own_duration_s(
    ram: int, ram_before: int, ack_ram: int, ack_ram_before: int, rate: float
) -> float:
    """For how many seconds the queue has messages in memory: now and at the last report, against
    the sum of its four rates in 1/s. `inf` for a queue without traffic."""
    if rate < RATE_MIN * 4:
        return inf
    return (ram + ram_before + ack_ram + ack_ram_before) / (4 * rate)


def next_rate(rate: float, count: int, seconds: float) -> float:
    """A moving average with a half-life of HALF_LIFE_S, in 1/s: `count` came in the last so many
    seconds, > 0. Scenario 43."""
    weight = exp(seconds * log(0.5) / HALF_LIFE_S)
    return count / seconds * (1 - weight) + rate * weight


def target_count(duration_s: float, rate: float) -> int:
    """How many messages may be in memory, UNBOUNDED for no bound. rate: the sum of the queue's four
    rates. Scenario 42."""
    return UNBOUNDED if duration_s == inf else int(duration_s * rate)


def quota_of(ram: int, ack_ram: int, target: int) -> int:
    """How many messages and unanswered deliveries are to be paged in all. Scenario 30."""
    return max(0, ram + ack_ram - target)


def has_acks_first(
    rate_in: float, rate_out: float, rate_ack_in: float, rate_ack_out: float
) -> bool:
    """Whether unanswered deliveries are paged before messages: if they grow faster. Scenario 31."""
    return rate_ack_in - rate_ack_out > rate_in - rate_out


def permitted_betas(count: int, beta_delta_count: int, beta_count: int, target: int) -> int:
    """How many messages without a body may have their place in memory, UNBOUNDED for any number.

    count: of the whole queue; beta_delta_count: those that are not whole; beta_count: of them those
    before delta. Scenario 39.
    """
    if count == 0 or target == UNBOUNDED:
        return UNBOUNDED
    if target == 0:
        return min(beta_count, SEGMENT_ENTRIES)
    share = beta_delta_count - beta_delta_count**2 // (beta_delta_count + target)
    return max(SEGMENT_ENTRIES, share)
