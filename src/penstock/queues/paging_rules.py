"""RabbitMQ's numbers of paging: how many messages of a queue may stay in memory, and what goes.

Every function is pure. Source: flow-semantics 6.2 to 6.5 (rabbit_memory_monitor,
rabbit_variable_queue 3.5.5, 3.8).
"""

from math import exp, inf, log
from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message

SEGMENT_ENTRIES: Final = 16_384
"""Of RabbitMQ's queue index: fewer betas are always permitted."""
UNBOUNDED: Final = 1 << 62
"""A target, or a number of permitted betas, that is never reached: nothing is paged (P5)."""
FIRM_RATIO: Final = 0.95
"""Of memory used; below it one more second is allowed."""
HALF_LIFE_S: Final = 5.0
RATE_MIN: Final = 0.01
"""In 1/s; a rate below counts as none."""
FIXED_HEADER_BYTES: Final = 14
"""Of a content header's payload without values: class, weight, body size, flags."""


def is_embedded(message: Message, embed_below: i64) -> bool:
    """Whether RabbitMQ keeps the message in the queue's index (queue_index_embed_msgs_below, in
    bytes of body and properties, 0 for never; scenario 24)."""
    if embed_below == 0 or message.body_bytes >= embed_below:
        return False
    return message.body_bytes + message.header_bytes - FIXED_HEADER_BYTES < embed_below


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
