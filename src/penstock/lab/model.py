"""What the broker's work costs, in nanoseconds of one processor, and what its network is like.

The broker is one thread on one processor, so its work is done one piece after the other and costs
virtual time; clients have processors of their own and cost none. Costs are linear in what was done:

    a read of a socket    read + read_byte * bytes
    a connection's turn   turn + parse * publishes
    a channel's turn      turn + route * publishes + settle * answered deliveries
    a queue's turn        turn + take * messages in + give * messages out
                          + keep * messages in, if it is durable: all that the store does
    a send                send + send_byte * bytes
    one look at sockets   poll

`WorkClock` is that processor: a clock that is as late as the work done by the actor that runs. At
each reading the running actor's work since the last reading is charged first, so the broker's own
accounts of busy and blocked time are right in virtual time too.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.actors.actor import Actor, Picker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.simulation.machine.clock import VirtualClock

SLICE_NS = 5_000_000
"""As in server/net/poller: after this long other sockets are looked at."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds each; the two `_byte` ones may be fractions."""

    poll_ns: int
    read_ns: int
    read_byte_ns: float
    turn_ns: int
    parse_ns: int
    route_ns: int
    settle_ns: int
    take_ns: int
    give_ns: int
    keep_ns: int
    send_ns: int
    send_byte_ns: float


@dataclass(frozen=True, slots=True)
class Network:
    """trip_ns: from one end to the other; byte_ns: per byte and direction of one connection;
    up_bytes, down_bytes: what both kernels hold together, towards the broker and from it."""

    trip_ns: int
    byte_ns: float
    up_bytes: int
    down_bytes: int


INTERPRETED: Final = Costs(
    poll_ns=3000, read_ns=1100, read_byte_ns=0.05, turn_ns=14_500, parse_ns=6200, route_ns=2100,
    settle_ns=800, take_ns=1700, give_ns=2100, keep_ns=9000, send_ns=1600, send_byte_ns=0.05,
)  # fmt: skip
LOOPBACK: Final = Network(trip_ns=30_000, byte_ns=0.3, up_bytes=131_072, down_bytes=524_288)


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
        """No actor has a turn."""
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
            kept_ns = 0 if actor.durability is None else costs.keep_ns
            self.now_ns += new_first * (costs.take_ns + kept_ns) + new_second * costs.give_ns
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
