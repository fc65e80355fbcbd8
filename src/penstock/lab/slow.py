"""A queue that needs time for each message, as one whose disk or replica is slow, or is parked.

The queue's actor is kept out of the scheduler's line, by the same mark with which an actor shows
that it stands in it already; it is given turns here, of as many messages as it has had time for.
The same code slows queues down in the simulator and in a running broker.
"""

from typing import Final

from penstock.broker.actors.actor import BUSY
from penstock.broker.actors.scheduler import Scheduler
from penstock.broker.queue.queue_actor import QueueActor
from penstock.lab.workload import QueueSpec

NS_PER_MS: Final = 1_000_000
SAVED_NS: Final = NS_PER_MS
"""Idle time that may be worked off at once later."""
GIVE_MESSAGES: Final = 1024
"""Deliveries in a turn that only delivers."""


class SlowQueue:
    """Serves one queue by its `spec`. `is_parked`: it is given no turn at all."""

    def __init__(self, spec: QueueSpec, actor: QueueActor, scheduler: Scheduler) -> None:
        self.spec = spec
        self.actor = actor
        self.scheduler = scheduler
        self.is_parked = False
        self.is_held = False
        self._free_ns = 0
        self._commit_ns = 0
        self._served_ns = 0
        self._is_busy = False
        self._saved_ns = max(SAVED_NS, int(spec.commit_ms * NS_PER_MS))

    def hold(self, now_ns: int) -> None:
        """From now on only `serve` gives it turns."""
        if self.is_held:
            return
        if self.actor in self.scheduler.ready:
            self.scheduler.ready.remove(self.actor)
        self.actor.is_ready = True
        self.is_held = True
        self._free_ns = now_ns

    def let_go(self) -> None:
        """Serve it as every other queue again."""
        if self.is_held:
            self.is_held = False
            self.actor.is_ready = False
            self.actor.wake()

    def park(self, now_ns: int) -> None:
        self.is_parked = True
        self.hold(now_ns)

    def unpark(self, now_ns: int) -> None:
        self.is_parked = False
        self._is_busy = False
        self._free_ns = now_ns
        if not self.spec.is_slow():
            self.let_go()

    def serve(self, now_ns: int) -> None:
        """Give it turns for the time that has passed; call it about every millisecond."""
        if self.is_parked or not self.is_held or not self.actor.is_alive:
            return
        if now_ns < self._commit_ns:
            return
        self._commit_ns = now_ns + int(self.spec.commit_ms * NS_PER_MS)
        # While it has work no time is lost, however late a busy process calls this.
        saved_ns = self._saved_ns
        if self._is_busy:
            saved_ns = max(saved_ns, now_ns - self._served_ns)
        self._free_ns = max(self._free_ns, now_ns - saved_ns)
        while self._free_ns <= now_ns and self.actor.pending:
            self._take(now_ns)
        self._is_busy = len(self.actor.pending) > 0
        self._served_ns = now_ns
        self._give(now_ns)

    def _take(self, now_ns: int) -> None:
        """One turn for as many messages as there has been time for, and of as many senders: those
        beyond them wait for the next turn, so that all are served in rotation."""
        actor = self.actor
        room = self._room(now_ns)
        waiting = actor.pending[room:]
        actor.pending = actor.pending[:room]
        taken_before, bytes_before = int(actor.messages.publish_count), self._bytes_in()
        self._turn(room // len(actor.pending))
        actor.pending = waiting + actor.pending
        taken = int(actor.messages.publish_count) - taken_before
        kib = (bytes_before - self._bytes_in()) / 1024
        spent_us = taken * self.spec.service_us + kib * self.spec.service_us_per_kib
        # A turn that takes nothing ends the round, because it would go on for ever.
        self._free_ns = self._free_ns + int(spent_us * 1000) if taken > 0 else now_ns + 1

    def _give(self, now_ns: int) -> None:
        """Deliver what consumers have room for: that needs no extra time."""
        actor = self.actor
        waiting = actor.pending
        actor.pending = []
        if actor.is_deep:
            # Consumers may have taken enough: only a turn finds that out.
            self._turn(GIVE_MESSAGES)
        while actor.is_alive and actor.ready and actor.messages.ready_count() > 0:
            self._turn(GIVE_MESSAGES)
        actor.pending = waiting + actor.pending

    def _turn(self, budget: int) -> None:
        actor = self.actor
        # By the broker's own clock, which may be ahead of when this was due.
        clock = self.scheduler.clock
        actor.time.enter(BUSY, clock.monotonic_ns())
        actor.turn(budget)
        actor.time.enter(actor.rest_state(), clock.monotonic_ns())
        # A turn may have woken it; it still is where it was, outside the line.
        actor.is_ready = True

    def _room(self, now_ns: int) -> int:
        """Messages it has time for now, at least 1: who begins one finishes it."""
        if self.spec.service_us_per_kib > 0 or self.spec.service_us == 0:
            return 1
        return 1 + int((now_ns - self._free_ns) / (self.spec.service_us * 1000))

    def _bytes_in(self) -> int:
        """Bytes its senders have handed over, counted only where bytes cost time."""
        if self.spec.service_us_per_kib == 0:
            return 0
        return sum(int(lane.in_flight_bytes) for lane in self.actor.lanes)
