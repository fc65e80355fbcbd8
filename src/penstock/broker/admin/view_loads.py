"""Whose work lies where, for snapshots: in mailboxes, at rest, at a socket; and waits for answers.

Cost: a look at each lane of a queue; what rests is looked at only in queues that hold publishers
for their depth, and of that STORED_LOOKED_AT messages.
"""

from functools import cache
from typing import Final

from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.explain.answers import CONFIRMS, RETURN
from penstock.flow.hop import Hop
from penstock.protocol.methods.codec import METHODS
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.telemetry.actor_window import (
    DEBT,
    MAILBOX,
    OWED,
    PARKED,
    PARKED_BYTES,
    PARKED_DISK,
    PARKED_FAULT,
    PARKED_MAX,
    PARKED_NS,
    PARKED_ROOM,
    SENT,
    STORED,
    WAIT_MOST,
    WAITED,
)
from penstock.telemetry.answer_times import (
    BASIC_ACK,
    BASIC_RETURN,
    STAGE_NAMES,
    AnswerTimes,
)
from penstock.telemetry.snapshots import OTHERS

LOADS_MAX: Final = 64
"""Accounts a queue or an output names in a snapshot; the others are one."""

LANES_LOOKED_AT: Final = 1000
"""Senders of one queue looked at, about a millisecond; of more only those with mail in it."""

STORED_LOOKED_AT: Final = 128
"""Messages at rest looked at, evenly spread over the queue: shares to about 5 percent points."""


def queue_loads(queue: QueueActor, numbers: dict[str, float]) -> None:
    """Who loads the queue, by account: `debt:` messages in its mailboxes, `sent:` all that was
    handed over since, and `stored:` bytes at rest, of a deep queue only; `mailbox`: messages."""
    debts: dict[str, int] = {}
    sent: dict[str, int] = {}
    mailbox = 0
    lanes = queue.lanes
    if len(lanes) > LANES_LOOKED_AT:
        lanes = queue.pending[:LANES_LOOKED_AT]
    for lane in lanes:
        name = lane.origin.name
        waiting = int(lane.in_flight)
        mailbox += waiting
        debts[name] = debts.get(name, 0) + waiting
        passed = int(lane.granted + lane.deferred + lane.done) + waiting
        sent[name] = sent.get(name, 0) + passed
    numbers[MAILBOX] = float(mailbox)
    if len(queue.lanes) > LANES_LOOKED_AT:
        # Whose mail waits changes from round to round, so nothing that counts up can be told.
        _add_largest(numbers, DEBT, debts)
        sent.clear()
    names = sorted(sent, key=lambda name: (-sent[name], name))
    for index, name in enumerate(names):
        shown = name if index < LOADS_MAX else OTHERS
        for prefix, counts in ((DEBT, debts), (SENT, sent)):
            if counts[name] > 0:
                key = prefix + shown
                numbers[key] = numbers.get(key, 0.0) + float(counts[name])
    if queue.is_deep:
        _add_largest(numbers, STORED, _stored_bytes(queue))


def output_loads(connection: Connection, numbers: dict[str, float]) -> None:
    """Who pays for what the connection's socket has not taken: `owed:` bytes by account."""
    output = connection.output
    if output.runs:
        _add_largest(
            numbers,
            OWED,
            {origin.name: bytes_ for origin, (_, bytes_) in output.debt_by_origin().items()},
        )


def _stored_bytes(queue: QueueActor) -> dict[str, int]:
    """By account; an estimate for queues with more than STORED_LOOKED_AT messages."""
    messages = queue.messages
    step = max(1, -(-int(messages.ready_count()) // STORED_LOOKED_AT))
    sums: dict[str, int] = {}
    for message in messages.ready_messages(step):
        name = message.origin.name
        size = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        sums[name] = sums.get(name, 0) + size * step
    return sums


def _add_largest(numbers: dict[str, float], prefix: str, counts: dict[str, int]) -> None:
    for index, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name))):
        if counts[name] > 0:
            key = prefix + (name if index < LOADS_MAX else OTHERS)
            numbers[key] = numbers.get(key, 0.0) + float(counts[name])


def answer_loads(times: AnswerTimes, now_ns: int, numbers: dict[str, float]) -> None:
    """Add the waits of a connection or channel to its `numbers`."""
    for one in times.totals(now_ns):
        names = wait_names(answer_name(int(one.kind)))
        numbers[names[0]] = float(one.ns)
        numbers[names[1]] = float(one.count)
        numbers[names[2]] = float(one.flying)
        numbers[names[3]] = float(one.most)
        for name, ns in zip(names[4:], one.stages, strict=True):
            if ns > 0:
                numbers[name] = float(ns)


@cache
def wait_names(answer: str) -> tuple[str, ...]:
    """The names of a wait's numbers, which all snapshots share: its time, count, flying and most,
    then STAGE_NAMES. Bound: the kinds of answers there are, those of `answer_name`."""
    prefix = f"{WAITED}{answer}:"
    first = (prefix + "ns", prefix + "count", prefix + "flying", WAIT_MOST + answer)
    return (*first, *(prefix + stage for stage in STAGE_NAMES))


def compact(numbers: dict[str, float]) -> dict[str, float]:
    """The same in the room that it takes: a dict that grew has room for twice as many, and most
    numbers of thousands of idle connections are zeros."""
    grown = {name: value or 0.0 for name, value in numbers.items()}
    # A dict that is made of another one has its size from the beginning.
    return dict(grown)


def answer_name(kind: int) -> str:
    """What is waited for. kind: see AnswerTimes.answered."""
    if kind == BASIC_ACK:
        return CONFIRMS
    if kind == BASIC_RETURN:
        return RETURN
    method = METHODS.get((kind >> 16, kind & 0xFFFF))
    return "an answer" if method is None else f"{method.NAME}-ok"


def parked_loads(
    channel: Channel, now_ns: int, numbers: dict[str, float], labels: dict[str, str]
) -> None:
    """What `channel` keeps aside, by queue, added to what is there; its connection's room, and why
    the disk has none."""
    parking = channel.parking
    for lane, line in parking.lines.items():
        queue = lane.receiver
        numbers[PARKED + queue] = numbers.get(PARKED + queue, 0.0) + int(line.count())
        bytes_ = int(line.bytes + line.disk_bytes)
        numbers[PARKED_BYTES + queue] = numbers.get(PARKED_BYTES + queue, 0.0) + bytes_
        if line.disk_bytes:
            on_disk = numbers.get(PARKED_DISK + queue, 0.0) + int(line.disk_bytes)
            numbers[PARKED_DISK + queue] = on_disk
        age_ns = float(now_ns - int(line.since_ns))
        numbers[PARKED_NS + queue] = max(numbers.get(PARKED_NS + queue, 0.0), age_ns)
    if parking.lines:
        lot = parking.lot
        room = int(lot.room_bytes() + lot.disk_room_bytes())
        numbers[PARKED_ROOM] = float(room)
        numbers[PARKED_MAX] = float(room + int(lot.bytes + lot.disk_bytes))
        disk = lot.node.disk
        if disk is not None and disk.fault != "":
            labels[PARKED_FAULT] = disk.fault


def credit_loads(numbers: dict[str, float], hop: Hop) -> None:
    """What is left of the credit of `hop`."""
    numbers[f"credit_now:{hop.receiver}"] = float(int(hop.balance))
    numbers[f"credit_initial:{hop.receiver}"] = float(int(hop.window))
