"""The broker's one processor: a clock that is as late as the work done by the actor that runs.

Whenever somebody looks at the time, what the running actor has done since the last look is charged
first. So the broker's own accounts of busy and blocked time are right in virtual time too.
"""

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.scheduler import Picker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.lab.model import Costs
from penstock.simulation.machine.clock import VirtualClock

SLICE_NS = 5_000_000
"""As in server/net/poller: after this long other sockets are looked at."""


class WorkClock(VirtualClock):
    """Virtual time, moved by work and by nothing else while the broker runs."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(0)
        self.costs = costs
        self._actor: Actor | None = None
        self._first = 0
        self._second = 0

    def monotonic_ns(self) -> int:
        if self._actor is not None:
            self._charge_actor()
        return self.now_ns

    def charge(self, ns: float) -> None:
        """Work outside of turns: the system calls."""
        self.now_ns += int(ns)

    def begin(self, actor: Actor) -> None:
        """`actor` has its turn from now on."""
        self.end()
        self._actor = actor
        self._first, self._second = self.done(actor)
        self.now_ns += self.costs.turn_ns

    def end(self) -> None:
        """Nobody has a turn."""
        if self._actor is not None:
            self._charge_actor()
            self._actor = None

    def _charge_actor(self) -> None:
        actor = self._actor
        if actor is None:
            return
        costs = self.costs
        first, second = self.done(actor)
        new_first, new_second = first - self._first, second - self._second
        if new_first == 0 and new_second == 0:
            return
        self._first, self._second = first, second
        if isinstance(actor, QueueActor):
            self.now_ns += new_first * costs.take_ns + new_second * costs.give_ns
        elif isinstance(actor, Channel):
            self.now_ns += new_first * costs.route_ns + new_second * costs.settle_ns
        else:
            self.now_ns += new_first * costs.parse_ns

    def done(self, actor: Actor) -> tuple[int, int]:
        """Two counts of the work `actor` has ever done."""
        if isinstance(actor, QueueActor):
            return int(actor.messages.publish_count), int(actor.messages.deliver_count)
        if isinstance(actor, Channel):
            publisher = actor.publisher
            published = 0 if publisher is None else int(publisher.publish_count)
            return published, int(actor.table.next_tag - actor.table.count)
        if isinstance(actor, Connection):
            return int(actor.receive_count), 0
        return 0, 0


class WorkPicker(Picker):
    """In order, and until the slice is over, as the server's scheduler does it."""

    def __init__(self, clock: WorkClock) -> None:
        self.clock = clock
        self.end_ns = 0

    def pick(self, ready: list[Actor]) -> int:
        self.clock.end()
        if self.clock.now_ns >= self.end_ns:
            return -1
        self.clock.begin(ready[0])
        return 0
