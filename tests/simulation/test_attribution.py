"""Who is blamed for blocked time, against the simulator: culprits the lab has no workload for.

The world looks at every connection between any two things that happen, and keeps its own sum of the
time in which it was held; the books of the broker must agree within 1 %. Of the blocked time of
the publishers to the queue in trouble, at least 95 % must be put down to the culprit.
Source: docs/flow.md; the questions of the field in which nobody could say why.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from penstock.base.config import Config
from penstock.broker.admin.views import actor_snapshots
from penstock.explain.blame import follow
from penstock.explain.root_causes import name_cause
from penstock.flow.profile import profile_named
from penstock.simulation.world.actions import declare
from penstock.simulation.world.clients import Client
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import Load, PublishingRole, to_queue
from penstock.simulation.world.world import World, WorldSetting
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.window import WindowHistory

MS = 1_000_000
S = 1_000_000_000
SEEDS = range(1, 4)
RUN_NS = 2 * S
HELD_LONG_NS = 100 * MS
TOTALS_AGREE = 0.01
EXPLAINED = 0.95


class WatchedWorld(World):
    """A world that keeps its own books of who was held: truth_ns, by connection."""

    def __init__(self, seed: int, setting: WorldSetting) -> None:
        super().__init__(seed, setting)
        self.truth_ns: dict[str, int] = {}
        self._looked_at_ns = self.clock.now_ns
        self._held: list[str] = []

    def look(self) -> None:
        """Add the time since the last look to everybody who was held then."""
        passed_ns = self.clock.now_ns - self._looked_at_ns
        self._looked_at_ns = self.clock.now_ns
        for name in self._held:
            self.truth_ns[name] = self.truth_ns.get(name, 0) + passed_ns
        self._held = [
            one.identity
            for one in self.broker.connections.values()
            if not one.gate.is_open or one.is_told_blocked or one.is_held_by_rate()
        ]

    def run_until(self, end_ns: int) -> None:
        """Everything that happens until then, whether or not anybody is stuck."""
        while self.clock.now_ns < end_ns:
            self.look()
            ready = self._ready()
            if ready:
                self._do(ready)
            elif len(self.timers) > 0:
                self.timers.run_next()
            else:
                self.clock.jump(end_ns)
            self.look()


@dataclass(frozen=True, slots=True)
class Case:
    """inject: what goes wrong, in a world where publishers are at work; roots: who may be named;
    label: the cause's; config: of the broker."""

    inject: Callable[[WatchedWorld, Client], None]
    roots: tuple[str, ...]
    label: str
    config: Config
    consumer: Habit | None


def nothing(world: WatchedWorld, consumer: Client) -> None:
    """The consumer is culprit enough."""


def stop_reading(world: WatchedWorld, consumer: Client) -> None:
    consumer.is_reading = False


def limit_rate(world: WatchedWorld, consumer: Client) -> None:
    world.broker.settings.write("rate.user.messages:guest", "20/s")


def limit_account(world: WatchedWorld, consumer: Client) -> None:
    """Work that is outstanding at a parked queue meets the limit of the whole user."""
    world.picker.parked.add("queue:/q1")
    world.broker.settings.write("account.user.high", "4KiB/2KiB")


def park(world: WatchedWorld, consumer: Client) -> None:
    world.picker.parked.add("queue:/q1")


SMALL = Config(heartbeat_s=0, queue_depth_bytes=20_000, socket_output_high_bytes=4000)
DEEP = replace(SMALL, queue_depth_bytes=1 << 28)
ROOMY = replace(SMALL, queue_depth_bytes=120_000)
"""More than the pipe to a client takes, or all that the queue may hold is on its way."""
CASES = {
    "stopped socket": Case(stop_reading, ("consumers:/q1",), "socket", ROOMY, Habit("q1")),
    "deep queue, no consumer": Case(nothing, ("consumers:/q1",), "consumer", SMALL, None),
    "rate limit": Case(limit_rate, ("rate:user:guest",), "rate", DEEP, Habit("q1")),
    "account limit": Case(limit_account, ("user:guest@/",), "debt", DEEP, Habit("q1")),
    "parked queue": Case(park, ("queue:/q1",), "stuck", DEEP, Habit("q1")),
}


def windows_of(case: Case, seed: int) -> tuple[WatchedWorld, dict[str, ActorWindow], list[str]]:
    """Two publishers to q1 and one to q2, whose consumer is quick; the windows of RUN_NS from the
    moment of the injection, and the publishers to q1."""
    profile = profile_named("penstock")
    world = WatchedWorld(seed, WorldSetting(profile, case.config, check_every=1 << 30))
    declare(world, ("q1", "q2"))
    consuming = [Habit("q2", is_auto_ack=True)] + ([] if case.consumer is None else [case.consumer])
    clients = [world.connect(ConsumingRole(habit)) for habit in consuming]
    load = Load((to_queue("q1"),), 1 << 30, body_bytes_max=400, pause_percent=100,
                pause_ns=5 * MS, is_confirming=False)  # fmt: skip
    publishing = [world.connect(PublishingRole(load)) for _ in range(2)]
    world.connect(PublishingRole(replace(load, addresses=(to_queue("q2"),), pause_ns=40 * MS)))
    world.run_until(world.clock.now_ns + 100 * MS)
    history = WindowHistory(10)
    world.truth_ns.clear()
    start_ns = world.clock.now_ns
    history.push(start_ns, actor_snapshots(world.broker))
    case.inject(world, clients[-1])
    for second in range(1, RUN_NS // S + 1):
        world.run_until(start_ns + second * S)
        history.push(world.clock.now_ns, actor_snapshots(world.broker))
    assert world.log.errors == []
    held = [f"conn:{client.link.name}" for client in publishing]
    return world, history.over(RUN_NS / S + 1), held


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_the_culprit_is_named_and_the_books_agree(name: str, seed: int) -> None:
    case = CASES[name]
    world, windows, publishers = windows_of(case, seed)
    explained_ns = blocked_ns = 0
    total_ns = sum(world.truth_ns.values())
    booked_ns = sum(windows[actor].blocked_ns for actor in windows if actor.startswith("conn:"))
    assert abs(booked_ns - total_ns) <= TOTALS_AGREE * total_ns
    for actor in publishers:
        truth_ns = world.truth_ns.get(actor, 0)
        window = windows[actor]
        assert truth_ns > HELD_LONG_NS, "nobody was held, so nothing would be shown"
        assert abs(window.blocked_ns - truth_ns) <= TOTALS_AGREE * truth_ns, actor
        stays = follow(actor, windows)
        assert sum(stay.ns for stay in stays) == window.blocked_ns
        blocked_ns += window.blocked_ns
        for stay in stays:
            if stay.root in case.roots and name_cause(stay, windows)[0] == case.label:
                explained_ns += stay.ns
    check_states(windows)
    for actor, window in windows.items():
        if window.kind in ("conn", "chan", "queue"):
            assert window.times.blocked_ns <= window.blocked_ns + MS, actor
    assert explained_ns >= EXPLAINED * blocked_ns, [
        (stay.root, name_cause(stay, windows), stay.ns, [step.peer for step in stay.path])
        for actor in publishers
        for stay in follow(actor, windows)
    ]


def check_states(windows: dict[str, ActorWindow]) -> None:
    """Idle, busy, blocked and waiting cover every actor's window without gap and overlap."""
    for actor, window in windows.items():
        if window.kind in ("conn", "chan", "queue"):
            times = window.times
            parts = (times.idle_ns, times.busy_ns, times.blocked_ns, times.waiting_ns)
            assert min(parts) >= 0 and sum(parts) == window.window_ns, actor


def test_an_innocent_publisher_is_not_blamed_on_the_culprit() -> None:
    """The connection that publishes to q2 is hardly held while q1 stands still."""
    _, windows, publishers = windows_of(CASES["parked queue"], 2)
    others = [a for a, w in windows.items() if w.kind == "conn" and a not in publishers]
    assert len(others) >= 3
    assert all(windows[actor].blocked_share() < 0.05 for actor in others)
