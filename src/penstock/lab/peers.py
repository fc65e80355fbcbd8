"""The programs at the other end: publishers and consumers as the workload describes them.

They own a client session and no socket: the simulator moves their bytes through its network, the
live run through real sockets, and both ask the same questions:

    turn(now)           do what is due
    take(events, now)   what the broker said
    next_ns()           when it wants its next turn; None when only the broker can bring one

Every body begins with a stamp: when it was meant to be sent (8 bytes), by which publisher (4), and
4 bytes of nothing, so that the smallest body has 16.
"""

import struct
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from math import exp, log
from typing import Final

from penstock.client.events import (
    Blocked,
    ChannelClosed,
    ClientEvent,
    Confirmed,
    ConnectionClosed,
    Delivery,
    FlowChanged,
    Opened,
    Replied,
    Unblocked,
)
from penstock.client.publish_template import PublishTemplate
from penstock.client.session import ClientSession
from penstock.client.url import BrokerUrl
from penstock.lab.result import PeerTally
from penstock.lab.workload import ConsumerSpec, PublisherSpec, Workload
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.simulation.machine.dice import Dice

STAMP: Final = struct.Struct(">QII")
QUANTUM_NS: Final = 1_000_000
"""A program that publishes as fast as it may is looked at this often."""
CATCH_UP_NS: Final = 20_000_000
"""A program that could not publish for longer than this forgets about the rest."""
BATCH: Final = 64
BATCH_BYTES: Final = 65_536
WAITING_MAX: Final = 1000
"""Deliveries a consumer keeps before it stops reading its socket (no prefetch)."""
NS_PER_S: Final = 1_000_000_000
TARGET_BITS: Final = 4
TARGET_MASK: Final = (1 << TARGET_BITS) - 1
URL: Final = BrokerUrl(heartbeat_s=0)


class PeerFailed(Exception):
    """A channel or connection of the lab was closed by the broker: the run says nothing."""


class Peer:
    """One connection with one channel. `is_ready`: it is set up; `is_running`: it works;
    `has_room`: everything it has said has left it, set by the loop that moves its bytes."""

    def __init__(self, name: str, url: BrokerUrl, tally: PeerTally, now_ns: int) -> None:
        self.name = name
        self.tally = tally
        self.session = ClientSession(url, name, now_ns)
        self.channel = 0
        self.is_ready = False
        self.is_running = False
        self.has_room = True

    def begin(self, now_ns: int) -> None:
        """All programs are ready: from now on it works."""
        self.is_running = True

    def take(self, events: list[ClientEvent], now_ns: int) -> None:
        """What the broker said. Raises: PeerFailed."""
        for event in events:
            if isinstance(event, Opened):
                self.channel = self.session.open_channel()[0]
                self.set_up()
            elif isinstance(event, Replied):
                self.answered(event)
            elif isinstance(event, ChannelClosed | ConnectionClosed):
                raise PeerFailed(f"{self.name}: {event.code} {event.text}")
            else:
                self.happened(event, now_ns)

    def set_up(self) -> None:
        """The channel is asked for: ask for the rest."""
        raise NotImplementedError

    def answered(self, event: Replied) -> None:
        """The last request of `set_up` makes it ready."""
        raise NotImplementedError

    def happened(self, event: ClientEvent, now_ns: int) -> None:
        """Anything else."""

    def turn(self, now_ns: int) -> None:
        """Do what is due."""

    def next_ns(self) -> int | None:
        return None

    def wants_input(self) -> bool:
        """Whether it reads its socket."""
        return True


class DeclaringPeer(Peer):
    """Declares the queues and bindings of a workload, and is ready when they are there."""

    def __init__(self, workload: Workload, url: BrokerUrl, tally: PeerTally, now_ns: int) -> None:
        super().__init__("lab: set-up", url, tally, now_ns)
        self.workload = workload
        self._left = 0

    def set_up(self) -> None:
        requests: list[m.Method] = []
        for fanout in dict.fromkeys(one.fanout for one in self.workload.queues if one.fanout):
            requests.append(m.ExchangeDeclare(fanout, "fanout"))
        for one in self.workload.queues:
            requests.append(m.QueueDeclare(one.name, durable=one.is_durable))
            if one.fanout:
                requests.append(m.QueueBind(one.name, one.fanout, ""))
        self._left = len(requests)
        for request in requests:
            self.session.request(self.channel, request)

    def answered(self, event: Replied) -> None:
        if not isinstance(event.request, m.ChannelOpen):
            self._left -= 1
            self.is_ready = self._left == 0


class Stream:
    """Publishes to one target: when the next is due, and how many are unconfirmed."""

    __slots__ = ("due_ns", "interval_ns", "is_innocent", "taken", "template", "unconfirmed")

    def __init__(self, template: PublishTemplate, interval_ns: float, is_innocent: bool) -> None:
        self.template = template
        self.is_innocent = is_innocent
        self.interval_ns = interval_ns
        self.due_ns = 0
        self.taken = 0
        self.unconfirmed = 0


class PublishingPeer(Peer):
    """One publisher of `spec`. number: who it is in the stamps; phase: 0..1, where in its first
    interval it begins, so that many do not begin together."""

    def __init__(
        self,
        spec: PublisherSpec,
        number: int,
        phase: float,
        url: BrokerUrl,
        tally: PeerTally,
        dice: Dice,
        now_ns: int,
    ) -> None:
        super().__init__(f"lab: {spec.name} {number}", url, tally, now_ns)
        self.spec = spec
        self.number = number
        self.phase = phase
        self.dice = dice
        self.streams: list[Stream] = []
        self.open: dict[int, int] = {}
        self.is_blocked = False
        self.is_flow_active = True
        self._turn_ns = 0
        self._filler = bytes(spec.size_bytes_highest)
        self._log_lowest = log(spec.size_bytes_lowest)
        self._log_range = log(spec.size_bytes_highest) - self._log_lowest

    def set_up(self) -> None:
        spec = self.spec
        if spec.confirms_max:
            self.session.request(self.channel, m.ConfirmSelect())
        interval_ns = NS_PER_S * len(spec.targets) / spec.rate_per_s
        for target in spec.targets:
            properties = Properties(delivery_mode=2 if spec.is_persistent else None)
            template = PublishTemplate(self.channel, target.exchange, target.key, properties)
            self.streams.append(Stream(template, interval_ns, target.is_innocent))

    def answered(self, event: Replied) -> None:
        last = m.ConfirmSelect if self.spec.confirms_max else m.ChannelOpen
        self.is_ready = self.is_ready or isinstance(event.request, last)

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        for index, stream in enumerate(self.streams):
            first = (self.phase + index / len(self.streams)) * stream.interval_ns * self.spec.burst
            stream.due_ns = now_ns + int(first)

    def stop(self) -> None:
        """Publish nothing more; confirms still come."""
        self.is_running = False

    def unconfirmed(self) -> int:
        return sum(stream.unconfirmed for stream in self.streams)

    def happened(self, event: ClientEvent, now_ns: int) -> None:
        if isinstance(event, Confirmed):
            if not event.is_accepted:
                raise PeerFailed(f"{self.name}: the broker refused a publish")
            for mark in event.marks:
                stream = self.streams[mark & TARGET_MASK]
                stream.unconfirmed -= 1
                if not stream.is_innocent:
                    self.tally.note_confirmed(mark >> TARGET_BITS, now_ns)
                left = self.open[mark] - 1
                if left:
                    self.open[mark] = left
                else:
                    del self.open[mark]
        elif isinstance(event, Blocked):
            self.is_blocked = True
        elif isinstance(event, Unblocked):
            self.is_blocked = False
        elif isinstance(event, FlowChanged):
            self.is_flow_active = event.is_active

    def give_up(self, now_ns: int) -> None:
        """The run is over: what is unconfirmed has waited until `now_ns` at least."""
        for mark, times in self.open.items():
            if not self.spec.targets[mark & TARGET_MASK].is_innocent:
                for _ in range(times):
                    self.tally.note_confirmed(mark >> TARGET_BITS, now_ns)

    def next_ns(self) -> int | None:
        if not self._may_publish():
            return None
        limit = self.spec.confirms_max
        due = [s.due_ns for s in self.streams if not limit or s.unconfirmed < limit]
        if not due:
            return None
        return min(due) if self.spec.is_paced else max(min(due), self._turn_ns + QUANTUM_NS)

    def _may_publish(self) -> bool:
        return self.is_running and self.has_room and not self.is_blocked and self.is_flow_active

    def turn(self, now_ns: int) -> None:
        if not self._may_publish():
            return
        self._turn_ns = now_ns
        spec = self.spec
        limit = spec.confirms_max
        budget = BATCH
        size = 0
        for index, stream in enumerate(self.streams):
            while stream.due_ns <= now_ns and budget > 0 and size < BATCH_BYTES:
                if limit and stream.unconfirmed >= limit:
                    break
                size += self._publish(index, stream, now_ns)
                budget -= 1
        self.tally.count("sent", now_ns, BATCH - budget)

    def _publish(self, index: int, stream: Stream, now_ns: int) -> int:
        spec = self.spec
        meant_ns = stream.due_ns if spec.is_paced else now_ns
        size = spec.size_bytes_lowest
        if self._log_range > 0:
            share = self.dice.below(1 << 20) / (1 << 20)
            size = int(exp(self._log_lowest + share * self._log_range))
        body = STAMP.pack(meant_ns, self.number, 0) + self._filler[: size - STAMP.size]
        frames = stream.template.frames(body, self.session.frame_bytes_max)
        mark = (meant_ns << TARGET_BITS) | index
        self.session.publish_frames(self.channel, frames, mark)
        if spec.confirms_max:
            stream.unconfirmed += 1
            self.open[mark] = self.open.get(mark, 0) + 1
        stream.taken += 1
        if stream.taken % spec.burst == 0:
            stream.due_ns += int(stream.interval_ns * spec.burst)
        if not spec.is_paced and stream.due_ns < now_ns - CATCH_UP_NS:
            # It publishes as fast as it may, but does not make up for what it could not.
            stream.due_ns = now_ns - CATCH_UP_NS
        return size


class ConsumingPeer(Peer):
    """One consumer of `spec`."""

    def __init__(
        self, spec: ConsumerSpec, number: int, url: BrokerUrl, tally: PeerTally, now_ns: int
    ) -> None:
        super().__init__(f"lab: consumer {number} of {spec.queue}", url, tally, now_ns)
        self.spec = spec
        self.interval_ns = int(NS_PER_S / spec.rate_per_s) if spec.rate_per_s else 0
        self.waiting: deque[Delivery] = deque()
        self.ready_ns = 0
        self.template: PublishTemplate | None = None

    def set_up(self) -> None:
        spec = self.spec
        if spec.forward_to:
            self.session.request(self.channel, m.ConfirmSelect())
            self.template = PublishTemplate(self.channel, "", spec.forward_to, Properties())
        if spec.prefetch:
            self.session.request(self.channel, m.BasicQos(0, spec.prefetch, False))
        self.session.request(self.channel, m.BasicConsume(spec.queue, ""))

    def answered(self, event: Replied) -> None:
        self.is_ready = self.is_ready or isinstance(event.request, m.BasicConsume)

    def wants_input(self) -> bool:
        return len(self.waiting) < WAITING_MAX

    def happened(self, event: ClientEvent, now_ns: int) -> None:
        if isinstance(event, Delivery):
            if not self.waiting and self.ready_ns < now_ns:
                # Idle time is not saved up for later.
                self.ready_ns = now_ns + self.interval_ns
            self.waiting.append(event)
        elif isinstance(event, Confirmed):
            # A message is answered when the next queue has taken it.
            for tag in event.marks:
                self.session.ack(self.channel, tag)

    def next_ns(self) -> int | None:
        return self.ready_ns if self.waiting else None

    def turn(self, now_ns: int) -> None:
        waiting = self.waiting
        last_tag = 0
        while waiting and self.ready_ns <= now_ns:
            self.ready_ns += self.interval_ns
            delivery = waiting.popleft()
            self._process(delivery, now_ns)
            last_tag = delivery.delivery_tag
        if last_tag and self.template is None:
            self.session.ack(self.channel, last_tag, True)

    def _process(self, delivery: Delivery, now_ns: int) -> None:
        body = delivery.body
        template = self.template
        if template is not None:
            frames = template.frames(body, self.session.frame_bytes_max)
            self.session.publish_frames(self.channel, frames, delivery.delivery_tag)
            return
        meant_ns, number, _ = STAMP.unpack_from(body)
        self.tally.note_received(meant_ns, now_ns, len(body), number, self.spec.is_innocent)


def publishers_of(
    workload: Workload, dice: Dice, tally: PeerTally, now_ns: int
) -> list[PublishingPeer]:
    """Every publisher of a workload, numbered from 0."""
    return [
        PublishingPeer(spec, number, _phase(dice), URL, tally, dice, now_ns)
        for number, spec in enumerate(_each_of(workload))
    ]


def _each_of(workload: Workload) -> Iterator[PublisherSpec]:
    for spec in workload.publishers:
        yield from repeat(spec, spec.count)


def _phase(dice: Dice) -> float:
    return dice.below(1 << 20) / (1 << 20)


def phases_apart(count: int, seed: int) -> list[float]:
    """Where each of `count` publishers begins in its first interval, 0..1, by number."""
    dice = Dice(seed)
    return [_phase(dice) for _ in range(count)]


def publishers_apart(
    workload: Workload, seed: int, tally: PeerTally, now_ns: int
) -> list[PublishingPeer]:
    """The same as `publishers_of`, each with a source of chance of its own: no draw depends on what
    the broker or another publisher did before it."""
    specs = list(_each_of(workload))
    return [
        PublishingPeer(spec, number, phase, URL, tally, Dice((seed << 32) + number + 1), now_ns)
        for number, (spec, phase) in enumerate(
            zip(specs, phases_apart(len(specs), seed), strict=True)
        )
    ]


def consumers_of(workload: Workload, tally: PeerTally, now_ns: int) -> list[ConsumingPeer]:
    """Every consumer of a workload."""
    return [
        ConsumingPeer(spec, number, URL, tally, now_ns)
        for spec in workload.consumers
        for number in range(1, spec.count + 1)
    ]
