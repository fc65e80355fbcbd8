"""One load run: sets up the connections, turns the loop, meters every second, and counts the loss.

One thread, one selector. Every round writes what producers have due, one batch each, and reads
each ready socket once, so neither side starves the other.
"""

import random
import selectors
from collections.abc import Callable
from typing import Final

from penstock.client.events import ClientEvent
from penstock.client.io_blocking import Channel, Connection, connect
from penstock.client.url import BrokerUrl
from penstock.perf.consumer import LoadConsumer
from penstock.perf.link import LoadConnection, LoadMember, say_goodbye, watch
from penstock.perf.meter import Tally
from penstock.perf.plan import LoadPlan, LoadTopology, declare
from penstock.perf.producer import LoadProducer, Reason
from penstock.perf.report import LoadReport, LoadResult, figures_of, shares_of
from penstock.server.machine.clock import SystemClock

INTERVAL_NS: Final = 1_000_000_000
_NS_PER_S: Final = 1_000_000_000
# select counts in microseconds, epoll in milliseconds; but select knows only file numbers below
# 1024, so it serves as long as that is safe.
_SELECT_FILES_MAX: Final = 1000


class LoadRun:
    """A run of `plan` against the broker at `url`; lines go to `write`."""

    def __init__(
        self, plan: LoadPlan, url: BrokerUrl, report: LoadReport, write: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._url = url
        self._report = report
        self._write = write
        self._clock = SystemClock()
        self._now = Tally()
        self._total = Tally()
        self._producers: list[LoadProducer] = []
        self._consumers: list[LoadConsumer] = []
        self._links: list[LoadConnection] = []
        self._copies: tuple[int, ...] = ()
        self._masks: dict[int, int] = {}
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._start_ns = 0
        self._end_ns = 0
        self._marked_ns = 0
        self._next_mark_ns = 0
        self._measured_ns = 0
        self._warm_spent: dict[str, tuple[int, ...]] = {}
        self._spent_before = (0,) * len(Reason)
        self._moved = (0, 0)
        self._moved_ns = 0

    def execute(self) -> LoadResult:
        """Run to the end, or until Ctrl-C.

        Raises: ConnectError, ChannelClosedError and the like while setting up.
        """
        with connect(self._url, "penstock perf: set-up") as control:
            topology = declare(control, self._plan)
            try:
                self._set_up(topology)
                self._loop(control)
            except KeyboardInterrupt:
                self._write(self._report.interrupted())
            finally:
                outcome = self._outcome(self._clock.monotonic_ns())
                self._close()
        return outcome

    # --- setting up -----------------------------------------------------------------------

    def _set_up(self, topology: LoadTopology) -> None:
        plan = self._plan
        links = [self._open(f"consumer {n}") for n in range(1, plan.consumers + 1)]
        for (_, channel), queue in zip(links, topology.consumed, strict=True):
            if plan.prefetch:
                channel.qos(plan.prefetch)
            channel.consume(queue, no_ack=plan.auto_ack)
        ways = [self._open(f"producer {n}") for n in range(1, plan.producers + 1)]
        for _, channel in ways:
            if plan.confirms_max:
                channel.confirm_select()
        start_ns = self._clock.monotonic_ns()
        self._start_ns = self._marked_ns = self._moved_ns = start_ns
        self._next_mark_ns = start_ns + INTERVAL_NS
        self._measured_ns = start_ns + int(plan.warm_up_s * _NS_PER_S)
        self._end_ns = self._measured_ns + int(plan.duration_s * _NS_PER_S)
        for number, (link, channel) in enumerate(links, 1):
            name = f"consumer {number}"
            early = channel.inbox.deliveries
            self._consumers.append(
                LoadConsumer(name, link, channel.number, early, plan, self._now, start_ns)
            )
        chance = random.Random(plan.seed)
        self._copies = topology.copies
        # First messages are spread over one interval: together they would be one burst for ever.
        step_ns = _NS_PER_S / plan.rate_per_s / max(1, plan.producers) if plan.rate_per_s else 0.0
        for index, (link, channel) in enumerate(ways):
            address = (topology.exchange, topology.routing_keys[index])
            first_ns = start_ns + int(index * step_ns)
            self._producers.append(
                LoadProducer(
                    f"producer {index + 1}", link, channel.number, plan, address, self._now,
                    chance, self._clock, start_ns, first_ns,
                )
            )  # fmt: skip
        self._listen()

    def _open(self, name: str) -> tuple[LoadConnection, Channel]:
        connection = connect(self._url, f"penstock perf: {name}")
        link = LoadConnection(*connection.detach())
        # Noted before anything else can fail, so that the end of the run closes it in any case.
        self._links.append(link)
        return link, connection.channel()

    def _listen(self) -> None:
        members = self._members()
        if all(member.link.fileno() < _SELECT_FILES_MAX for member in members):
            self._selector.close()
            self._selector = selectors.SelectSelector()
        for member in members:
            self._selector.register(member.link.sock, selectors.EVENT_READ, member)
            self._masks[id(member)] = selectors.EVENT_READ

    def _close(self) -> None:
        self._selector.close()
        for consumer in self._consumers:
            consumer.settle()
        for link in self._links:
            link.session.close()
        say_goodbye(self._links)

    def _members(self) -> list[LoadMember]:
        return [*self._producers, *self._consumers]

    # --- the loop -------------------------------------------------------------------------

    def _loop(self, control: Connection) -> None:
        while True:
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._next_mark_ns:
                self._mark(now_ns)
                self._keep_alive(control, now_ns)
            if self._is_over(now_ns):
                if now_ns - self._marked_ns >= INTERVAL_NS // 10:
                    self._mark(now_ns)
                return
            for key, mask in self._selector.select(self._timeout_s(now_ns)):
                self._serve(key.data, mask)
            for producer in self._producers:
                producer.turn(self._clock.monotonic_ns())
                self._interest(producer, True)
            for consumer in self._consumers:
                if consumer.next_ns() is not None:
                    consumer.turn(self._clock.monotonic_ns())
                self._interest(consumer, consumer.is_reading())

    def _serve(self, member: LoadMember, mask: int) -> None:
        now_ns = self._clock.monotonic_ns()
        if mask & selectors.EVENT_READ:
            events: list[ClientEvent] = member.link.read(now_ns)
            if events:
                member.take(events, now_ns)
        if mask & selectors.EVENT_WRITE:
            member.link.write(now_ns)

    def _interest(self, member: LoadMember, is_reading: bool) -> None:
        """Listen for what can happen: input, and room for output where some is unsent."""
        if member.link.is_ended:
            wanted = 0
        else:
            wanted = selectors.EVENT_READ if is_reading else 0
            if member.link.unsent:
                wanted |= selectors.EVENT_WRITE
        watch(self._selector, member.link.sock, self._masks[id(member)], wanted, member)
        self._masks[id(member)] = wanted

    def _timeout_s(self, now_ns: int) -> float:
        next_ns = self._next_mark_ns
        for producer in self._producers:
            producer_ns = producer.next_ns()
            if producer_ns is not None and producer_ns < next_ns:
                next_ns = producer_ns
        for consumer in self._consumers:
            consumer_ns = consumer.next_ns()
            if consumer_ns is not None and consumer_ns < next_ns:
                next_ns = consumer_ns
        if next_ns <= now_ns:
            return 0.0
        return (next_ns - now_ns) / _NS_PER_S

    def _keep_alive(self, control: Connection, now_ns: int) -> None:
        control.process(0)
        for consumer in self._consumers:
            if not consumer.is_reading():
                consumer.link.session.unheard(now_ns)
        for member in self._members():
            events = member.link.session.tick(now_ns)
            if events:
                member.take(events, now_ns)
            member.link.write(now_ns)

    # --- the end --------------------------------------------------------------------------

    def _is_over(self, now_ns: int) -> bool:
        if any(member.failed for member in self._members()):
            return True
        if self._plan.duration_s and now_ns >= self._end_ns:
            for producer in self._producers:
                producer.is_stopped = True
        if self._producers and not all(producer.is_done() for producer in self._producers):
            self._moved_ns = now_ns
            return False
        if not self._producers:
            is_late = bool(self._plan.duration_s) and now_ns >= self._end_ns
            return is_late or all(consumer.is_done() for consumer in self._consumers)
        return self._is_drained() or self._is_stuck(now_ns)

    def _is_drained(self) -> bool:
        if any(p.unconfirmed() or p.link.unsent for p in self._producers):
            return False
        expected = self._expected()
        return expected is None or self._unique() >= expected

    def _is_stuck(self, now_ns: int) -> bool:
        """Whether nothing has come for the time of grace; what is missing then is lost."""
        moved = (self._unique(), sum(p.unconfirmed() for p in self._producers))
        if moved != self._moved:
            self._moved = moved
            self._moved_ns = now_ns
        return now_ns - self._moved_ns >= self._plan.grace_s * _NS_PER_S

    def _unique(self) -> int:
        return sum(consumer.unique for consumer in self._consumers)

    def _expected(self) -> int | None:
        """Deliveries that must come; None where the run does not count its messages."""
        plan = self._plan
        if not plan.is_counting() or not plan.consumers:
            return None
        pairs = zip(self._producers, self._copies, strict=True)
        expected = sum(producer.accepted * copies for producer, copies in pairs)
        if plan.messages_per_consumer:
            expected = min(expected, plan.messages_per_consumer * plan.consumers)
        return expected

    # --- metering -------------------------------------------------------------------------

    def _mark(self, now_ns: int) -> None:
        """End an interval: print it, and keep it unless it belongs to the warm-up."""
        spent = self._spent(now_ns)
        since = tuple(new - old for new, old in zip(spent, self._spent_before, strict=True))
        self._spent_before = spent
        is_warm_up = self._marked_ns < self._measured_ns
        at_s = (now_ns - self._start_ns) / _NS_PER_S
        span_s = (now_ns - self._marked_ns) / _NS_PER_S
        self._marked_ns = now_ns
        while self._next_mark_ns <= now_ns:
            self._next_mark_ns += INTERVAL_NS
        self._write(self._report.interval(figures_of(self._now, since, at_s, span_s, is_warm_up)))
        if is_warm_up:
            # The warm-up ends with a whole interval, so what is measured starts and ends with one.
            self._measured_ns = max(self._measured_ns, now_ns)
            self._end_ns = self._measured_ns + int(self._plan.duration_s * _NS_PER_S)
            self._warm_spent = {p.name: p.held.snapshot() for p in self._producers}
        else:
            self._total.add(self._now)
        self._now.clear()

    def _spent(self, now_ns: int) -> tuple[int, ...]:
        total = [0] * len(Reason)
        for producer in self._producers:
            producer.held.settle(now_ns)
            for reason, spent in enumerate(producer.held.snapshot()):
                total[reason] += spent
        return tuple(total)

    def _measured(self, producer: LoadProducer) -> tuple[int, ...]:
        """A producer's time per reason after the warm-up."""
        before = self._warm_spent.get(producer.name, (0,) * len(Reason))
        return tuple(new - old for new, old in zip(producer.held.snapshot(), before, strict=True))

    def _outcome(self, now_ns: int) -> LoadResult:
        self._total.add(self._now)
        self._spent(now_ns)
        parts = [self._measured(producer) for producer in self._producers]
        spent = tuple(sum(column) for column in zip(*parts, strict=True))
        expected = self._expected()
        received = sum(consumer.received for consumer in self._consumers)
        span_s = (now_ns - self._measured_ns) / _NS_PER_S
        at_s = (now_ns - self._start_ns) / _NS_PER_S
        is_measured = self._start_ns > 0 and span_s > 0
        members = self._members()
        return LoadResult(
            figures=figures_of(self._total, spent, at_s, span_s, False) if is_measured else None,
            sent=sum(producer.sent for producer in self._producers),
            received=received,
            expected=expected,
            lost=0 if expected is None else max(0, expected - self._unique()),
            unconfirmed=sum(producer.unconfirmed() for producer in self._producers),
            producers=tuple(
                (producer.name, shares_of(part))
                for producer, part in zip(self._producers, parts, strict=True)
            ),
            failures=tuple(member.failed for member in members if member.failed is not None),
        )
