"""The plan of a random world: drawn from a seed alone, as data, so that parts can be left out.

Every connection, every role on it and every event has a number, counted in the order of drawing.
Leaving parts out changes nothing about the others, so a failing world can be made smaller one part
at a time, and what is left is named by the numbers that are left out.

Shrinking leaves out halves first, then quarters, and so on down to single parts, as long as the
world goes on failing. Any failure counts: the aim is the smallest world that
is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.world.actions import MS
from penstock.simulation.world.consuming import Habit
from penstock.simulation.world.publishing import Load, PublishTarget, to_queue

SALT: Final = 0x9EA5_0B1A
EVENT_KINDS: Final = (
    "vanish", "vanish", "reset", "close", "hang up", "fault", "end role", "kill channel",
    "crash queue", "delete queue", "purge queue", "cancel", "stop reading", "stop reading",
    "alarm", "alarm", "setting", "setting", "setting",
)  # fmt: skip
"""What can happen; what stands here twice happens twice as often."""
RUNS_MAX = 200
Fails = Callable[[frozenset[int]], SimulationFailed | None]
"""Runs the world without some parts: the failure, None if there is none."""


@dataclass(frozen=True, slots=True)
class RolePlan:
    """One channel: a publisher's load, a consumer's habit, or `gets` times basic.get."""

    number: int
    load: Load | None = None
    habit: Habit | None = None
    gets: int = 0

    def text(self) -> str:
        if self.load is not None:
            goals = {goal.exchange + "/" + goal.routing_key for goal in self.load.addresses}
            how = "confirmed" if self.load.is_confirming else "unconfirmed"
            return f"publishes {self.load.count} {how} to {', '.join(sorted(goals))}"
        if self.habit is not None:
            one = self.habit
            ack = "auto-ack" if one.is_auto_ack else f"prefetch {one.prefetch}"
            return f"consumes {one.queue} ({ack}, thinks up to {one.think_ns // 1000} µs)"
        return f"gets {self.gets} times"


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """One client: when it comes, and its channels. is_sleepy: naps, its socket left alone."""

    number: int
    name: str
    start_ns: int
    is_sleepy: bool
    roles: tuple[RolePlan, ...]

    def text(self) -> str:
        sleepy = ", sleepy" if self.is_sleepy else ""
        return f"client {self.name} comes at {self.start_ns / MS:.3f} ms{sleepy}"


@dataclass(frozen=True, slots=True)
class EventPlan:
    """Something happens to a client, a queue or the broker. which: of the clients; amount, share:
    drawn numbers whose meaning is the kind's."""

    number: int
    at_ns: int
    kind: str
    which: int
    queue: str
    lasts_ns: int
    amount: int
    share: int

    def text(self) -> str:
        return (
            f"at {self.at_ns / MS:.3f} ms: {self.kind} (client c#{self.which}, {self.queue}, for "
            f"{self.lasts_ns / MS:.3f} ms, {self.amount})"
        )


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """A whole random world. bindings: (queue, exchange, key)."""

    queues: tuple[str, ...]
    bindings: tuple[tuple[str, str, str], ...]
    connections: tuple[ConnectionPlan, ...]
    events: tuple[EventPlan, ...]

    def numbers(self) -> list[int]:
        """Of every part, the later ones first: what happened last is the first to try without."""
        found = [event.number for event in self.events]
        for connection in self.connections:
            found.append(connection.number)
            found += [role.number for role in connection.roles]
        return sorted(found, reverse=True)

    def without(self, numbers: frozenset[int]) -> "WorldPlan":
        """The plan with parts left out."""
        return replace(
            self,
            connections=tuple(
                replace(one, roles=tuple(r for r in one.roles if r.number not in numbers))
                for one in self.connections
                if one.number not in numbers
            ),
            events=tuple(one for one in self.events if one.number not in numbers),
        )

    def text(self) -> str:
        """Everything in it, a line each."""
        lines = [f"queues {', '.join(self.queues)}"]
        lines += [f"binding {exchange}/{key} -> {queue}" for queue, exchange, key in self.bindings]
        for connection in self.connections:
            lines.append(f"{connection.number}: {connection.text()}")
            lines += [f"  {role.number}: {role.text()}" for role in connection.roles]
        lines += [f"{event.number}: {event.text()}" for event in self.events]
        return "\n".join(lines)


class Draw:
    """Draws one plan. Its own dice: the world's are left as they are."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed ^ SALT)
        self._count = 0

    def plan(self) -> WorldPlan:
        dice = self.dice
        queues = tuple(f"q{at + 1}" for at in range(dice.between(1, 4)))
        bindings: list[tuple[str, str, str]] = []
        for queue in queues:
            if dice.happens(60):
                bindings.append((queue, "amq.fanout", ""))
            if dice.happens(50):
                bindings.append((queue, "amq.topic", dice.one_of(("a.*", "a.#", "*.b", "#"))))
        addresses = [to_queue(queue) for queue in queues]
        addresses.append(
            PublishTarget("amq.fanout", "", _bound(bindings, "amq.fanout", lambda _: True))
        )
        for key, patterns in (("a.b", ("a.*", "a.#", "*.b", "#")), ("a.b.c", ("a.#", "#"))):
            goals = _bound(bindings, "amq.topic", patterns.__contains__)
            addresses.append(PublishTarget("amq.topic", key, goals))
        connections = [self._connection(at, queues, addresses) for at in range(dice.between(2, 7))]
        events = [self._event(len(connections), queues) for _ in range(dice.below(9))]
        return WorldPlan(queues, tuple(bindings), tuple(connections), tuple(events))

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _time(self) -> int:
        """2 µs to a quarter of a second, every order of magnitude alike; see actions.some_time."""
        return self.dice.between(1 << 11, 2 << self.dice.between(11, 27))

    def _connection(
        self, at: int, queues: tuple[str, ...], addresses: list[PublishTarget]
    ) -> ConnectionPlan:
        dice = self.dice
        number = self._number()
        start_ns = self._time() if dice.happens(25) else 0
        roles = [self._role(at, queues, addresses)]
        while len(roles) < 4 and dice.happens(30):
            roles.append(self._role(dice.below(2), queues, addresses))
        return ConnectionPlan(number, f"c#{at}", start_ns, dice.happens(20), tuple(roles))

    def _role(self, at: int, queues: tuple[str, ...], addresses: list[PublishTarget]) -> RolePlan:
        """Even ones publish, odd ones consume, so that there is always something to do."""
        dice = self.dice
        if at % 2 == 0:
            goals = [dice.one_of(addresses) for _ in range(dice.between(1, 3))]
            load = Load(
                goals,
                dice.skewed(120),
                body_bytes_max=dice.one_of((40, 200, 1200)),
                is_confirming=dice.happens(60),
                window=dice.one_of((1, 5, 1_000_000)),
                burst=dice.between(1, 40),
                pause_percent=dice.one_of((0, 5, 30)),
                pause_ns=dice.one_of((MS // 10, 5 * MS)),
                is_alternating=dice.happens(50),
                mandatory_percent=dice.one_of((0, 0, 50)),
            )
            return RolePlan(self._number(), load=load)
        if dice.happens(10):
            return RolePlan(self._number(), gets=dice.between(1, 40))
        habit = Habit(
            dice.one_of(queues),
            prefetch=dice.one_of((0, 1, 2, 5, 20)),
            is_global=dice.happens(20),
            is_auto_ack=dice.happens(20),
            think_ns=dice.one_of((0, 0, MS // 20, 2 * MS, 15 * MS)),
            multiple_percent=dice.one_of((0, 20, 80)),
            requeue_percent=dice.one_of((0, 0, 5, 30)),
        )
        return RolePlan(self._number(), habit=habit)

    def _event(self, clients: int, queues: tuple[str, ...]) -> EventPlan:
        dice = self.dice
        return EventPlan(
            self._number(),
            self._time(),
            dice.one_of(EVENT_KINDS),
            dice.below(clients),
            dice.one_of(queues),
            self._time(),
            dice.skewed(64),
            dice.below(100),
        )


def _bound(
    bindings: list[tuple[str, str, str]], exchange: str, matches: Callable[[str], bool]
) -> tuple[str, ...]:
    """The queues that a publish reaches through `exchange`, each once."""
    found = {queue: None for queue, name, key in bindings if name == exchange and matches(key)}
    return tuple(found)


def drawn(seed: int) -> WorldPlan:
    """The plan of `seed`."""
    return Draw(seed).plan()


def smallest(
    numbers: list[int], failure: SimulationFailed, fails: Fails, runs_max: int = RUNS_MAX
) -> tuple[frozenset[int], SimulationFailed]:
    """Which of `numbers` can be left out together, and the failure without them.

    numbers: of all parts; failure: with all of them; at most `runs_max` runs."""
    out: frozenset[int] = frozenset()
    size = max(1, len(numbers) // 2)
    runs = 0
    while size >= 1:
        has_shrunk = False
        left = [number for number in numbers if number not in out]
        for at in range(0, len(left), size):
            if runs >= runs_max:
                return out, failure
            runs += 1
            candidate = out | set(left[at : at + size])
            found = fails(candidate)
            if found is not None:
                out, failure, has_shrunk = candidate, found, True
        if not has_shrunk or size > len(left):
            size //= 2
    return out, failure


def shrunk(failure: SimulationFailed, fails: Fails) -> str:
    """The smallest random world that fails as `failure` does: what is left of its plan, and how to
    replay it."""
    plan = drawn(failure.seed)
    out, smaller = smallest(plan.numbers(), failure, fails)
    return f"the smallest world that fails:\n{plan.without(out).text()}\n{smaller}"
