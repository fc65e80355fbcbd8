"""Runs in which one thing is wrong on purpose, and event files of them: the truth analyses are
measured against.

A run is the real broker on the lab's virtual processor, with publishers that ask for more than the
culprit lets through, and traffic beside them that has nothing to do with it. Everything but the
kind of culprit is drawn from the seed. What is written is what a running broker writes.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from penstock.base.config import Config
from penstock.broker.actors.actor import BUSY
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.channel.channel import Channel
from penstock.client.publish_template import PublishTemplate
from penstock.lab.model import INTERPRETED, LOOPBACK, WorkClock
from penstock.lab.peers import (
    URL,
    ConsumingPeer,
    DeclaringPeer,
    Peer,
    PublishingPeer,
    consumers_of,
    publishers_of,
)
from penstock.lab.run import make_ready
from penstock.lab.stage import LOOK_NS, BrokerStage
from penstock.lab.workload import (
    ALARM,
    KIB,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
    WorkloadEvent,
)
from penstock.lab.world import LabWorld
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.server.recorder.event_writers import EventWriters
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import give_store
from penstock.storage.log.job import Job

SLOW_CONSUMER: Final = "slow consumer"
STOPPED_SOCKET: Final = "stopped socket"
SLOW_QUEUE: Final = "slow queue"
SLOW_CHANNEL: Final = "slow channel"
SLOW_DISK: Final = "slow disk"
SMALL_WINDOW: Final = "small window"
NO_CONSUMER: Final = "no consumer"
MEMORY: Final = "memory alarm"
RATE: Final = "rate limit"
KINDS: Final = (
    SLOW_CONSUMER,
    STOPPED_SOCKET,
    SLOW_QUEUE,
    SLOW_CHANNEL,
    SLOW_DISK,
    SMALL_WINDOW,
    NO_CONSUMER,
    MEMORY,
    RATE,
)

SAMPLE_NS: Final = 100_000_000
"""How often snapshots are put on record: runs last seconds, so ten times as often as a broker."""

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
SEGMENT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Culprit:
    """One run. kind: of KINDS; workload: with the culprit in it; small: of the culprit's own
    numbers, messages a second or at a time; late_ms: of a slow disk, for each job."""

    seed: int
    kind: str
    profile: str
    workload: Workload
    small: int
    late_ms: int


@dataclass(frozen=True, slots=True)
class Truth:
    """What must be found. cause: its name; roots: whom it may be charged to, as beginnings of
    actors' names; queue: where; sent, received: messages, by those it concerns."""

    cause: str
    roots: tuple[str, ...]
    sent: int
    received: int


def drawn(seed: int) -> Culprit:
    """The run of `seed`; kinds come in turn."""
    dice = Dice(seed ^ 0xC0152175)
    kind = KINDS[seed % len(KINDS)]
    size = dice.one_of((256, 1000, 3000))
    small = dice.between(10, 50)
    profile = dice.one_of(("penstock", "adaptive", "static-30", "static-80"))
    # Our default lets 800 messages in before anybody is held: there a single publisher presses.
    is_wide = profile == "penstock"
    rate = float(dice.between(1000, 1300) if is_wide else dice.between(200, 500))
    pressing = PublisherSpec(
        "pressing", (Target("", "work"),), rate, count=1 if is_wide else dice.between(1, 3),
        size_bytes_lowest=size, size_bytes_highest=size,
        confirms_max=dice.one_of((0, 10_000)),
    )  # fmt: skip
    innocent = PublisherSpec(
        "innocent", (Target("", "innocent", True),), float(dice.between(20, 200)), is_paced=True
    )
    consumers = [ConsumerSpec("innocent", is_innocent=True)]
    spec = QueueSpec("work")
    if kind == SLOW_CONSUMER:
        consumers.append(ConsumerSpec("work", small, dice.between(1, 3), dice.between(1, 50)))
    elif kind == STOPPED_SOCKET:
        consumers.append(ConsumerSpec("work", prefetch=0))
    elif kind != NO_CONSUMER:
        consumers.append(ConsumerSpec("work", count=dice.between(1, 3)))
    if kind == SLOW_QUEUE:
        spec = replace(spec, service_us=NS_PER_S / 1000 / small)
    elif kind == SMALL_WINDOW:
        spec = replace(spec, commit_ms=float(dice.between(20, 60)))
        small = dice.between(2, 4)
    events: tuple[WorkloadEvent, ...] = ()
    if kind == MEMORY:
        consumers[-1] = replace(consumers[-1], rate_per_s=float(small), prefetch=20)
        events = (WorkloadEvent(dice.between(5, 15) / 100, ALARM, limit_bytes=8 * KIB),)
    depth_bytes = size * dice.between(5, 20)
    if kind in (MEMORY, SLOW_DISK, SMALL_WINDOW):
        depth_bytes = 64 << 20
    elif kind == STOPPED_SOCKET:
        # The socket is full before the queue is: only then is it known to be what is in the way.
        depth_bytes = size * dice.between(600, 700)
    workload = Workload(
        f"{kind} {seed}", f"{kind}, drawn", (spec, QueueSpec("innocent")), (pressing, innocent),
        tuple(consumers), events, seconds=1.2, warm_up_s=0.2,
        depth_bytes=depth_bytes,
    )  # fmt: skip
    if kind == SMALL_WINDOW:
        profile = f"static-{small}"
    return Culprit(seed, kind, profile, workload, small, dice.between(200, 500))


def record(culprit: Culprit, directory: str) -> Truth:
    """Run it, and write its event file to `directory`. Raises: LawBroken, PeerFailed."""
    workload = culprit.workload
    clock = WorkClock(INTERPRETED)
    # Without room to park: what is looked for is who holds publishers.
    config = Config(
        profile=culprit.profile,
        queue_depth_bytes=workload.depth_bytes,
        events_dir=directory,
        parked_bytes=1,
    )
    if culprit.kind == SLOW_DISK:
        config = replace(config, credit_queue_store=f"{culprit.small}/{culprit.small // 3}")
    if culprit.kind == RATE:
        config = replace(config, rate_connection_messages=culprit.small)
    network = replace(LOOPBACK, down_bytes=16 * KIB)
    world = LabWorld(culprit.seed, config, clock, network)
    world.tally.begin(clock.now_ns, clock.now_ns, 1 << 62)
    events = EventWriters(world.broker, f"s{culprit.seed}")
    stage = BrokerStage(world.broker, workload)
    peers = _peers(culprit, world)
    make_ready(world, [_declaring(culprit, world)])
    make_ready(world, peers)
    start_ns = clock.now_ns
    stage.prepare(start_ns)
    stage.begin(start_ns)
    world.every(LOOK_NS, partial(_look, stage))
    world.every(SAMPLE_NS, partial(_sample, events))
    if culprit.kind == SLOW_CHANNEL:
        _slow_channels(culprit, world)
    for peer in peers:
        peer.begin(start_ns)
    world.wake(start_ns)
    world.run_until(start_ns + int((workload.warm_up_s + workload.seconds) * NS_PER_S), _never)
    events.close()
    return _truth(culprit, world)


def _never() -> bool:
    return False


def _sample(events: EventWriters, now_ns: int) -> None:
    events.sample()
    if events.file is not None:
        events.file.write()


def _look(stage: BrokerStage, now_ns: int) -> None:
    """A queue that needs time for its messages is busy with them, however it is made slow here."""
    stage.look(now_ns)
    for slow in stage.slow.values():
        if slow.is_held and slow.spec.service_us > 0 and slow.actor.pending:
            slow.actor.time.enter(BUSY, stage.broker.clock.monotonic_ns())


def _truth(culprit: Culprit, world: LabWorld) -> Truth:
    consumer = ("consumer:", "consumers:/work", "socket:")
    cause, roots = {
        SLOW_CONSUMER: ("slow consumers", consumer),
        STOPPED_SOCKET: ("slow reader", consumer),
        SLOW_QUEUE: ("broker work", ("queue:/work",)),
        SLOW_CHANNEL: ("broker work", ("chan:",)),
        SLOW_DISK: ("disk", ("store:/",)),
        SMALL_WINDOW: ("small window", ("queue:/work",)),
        NO_CONSUMER: ("no consumer", ("nobody",)),
        MEMORY: ("memory alarm", ("alarm:memory",)),
        RATE: ("rate limit", ("rate:",)),
    }[culprit.kind]
    sent = sum(world.tally.lines["sent"])
    return Truth(cause, roots, sent, world.tally.received - world.tally.innocent)


# -- who is there ----------------------------------------------------------------------------------


def _declaring(culprit: Culprit, world: LabWorld) -> DeclaringPeer:
    now_ns = world.clock.now_ns
    if culprit.kind != SLOW_DISK:
        return DeclaringPeer(culprit.workload, URL, world.tally, now_ns)
    disk = LateDisk(world, culprit.late_ms * NS_PER_MS)
    give_store(world.broker, disk, SimDisk(), SEGMENT_BYTES)
    return DeclaringDurable(culprit.workload, URL, world.tally, now_ns)


def _peers(culprit: Culprit, world: LabWorld) -> list[Peer]:
    now_ns = world.clock.now_ns
    workload = culprit.workload
    peers: list[Peer] = []
    for consumer in consumers_of(workload, world.tally, now_ns):
        if culprit.kind == STOPPED_SOCKET and not consumer.spec.is_innocent:
            consumer = DeafConsuming(consumer.spec, 1, URL, world.tally, now_ns)
        peers.append(consumer)
    for publisher in publishers_of(workload, world.dice, world.tally, now_ns):
        if culprit.kind == SLOW_DISK:
            publisher = Persistent(
                publisher.spec, publisher.number, publisher.phase, URL, world.tally,
                world.dice, now_ns,
            )  # fmt: skip
        peers.append(publisher)
    return peers


class DeclaringDurable(DeclaringPeer):
    """The queue of the workload that matters outlives the broker."""

    def set_up(self) -> None:
        self._left = len(self.workload.queues)
        for one in self.workload.queues:
            is_durable = one.name == "work"
            self.session.request(self.channel, m.QueueDeclare(one.name, durable=is_durable))


class Persistent(PublishingPeer):
    """Publishes messages that are to be kept."""

    def set_up(self) -> None:
        super().set_up()
        for stream, target in zip(self.streams, self.spec.targets, strict=True):
            stream.template = PublishTemplate(
                self.channel, target.exchange, target.key, Properties(delivery_mode=2)
            )


class DeafConsuming(ConsumingPeer):
    """A consumer that stops reading its socket for good as soon as something has arrived."""

    def wants_input(self) -> bool:
        return not self.waiting

    def turn(self, now_ns: int) -> None:
        """It has stopped."""

    def next_ns(self) -> int | None:
        return None


class LateDisk(Disk):
    """Needs `late_ns` for every job, one after the other."""

    __slots__ = ("_free_ns", "_late_ns", "_world")

    def __init__(self, world: LabWorld, late_ns: int) -> None:
        self._world = world
        self._late_ns = late_ns
        self._free_ns = 0

    def submit(self, job: Job, client: JobClient) -> None:
        self._free_ns = max(self._free_ns, self._world.clock.now_ns) + self._late_ns
        self._world.at(self._free_ns, partial(_run_job, job, client))


def _run_job(job: Job, client: JobClient, now_ns: int) -> None:
    error: OSError | None = None
    try:
        job.run()
    except OSError as fault:
        error = fault
    client.job_done(job, error)


# -- a slow channel --------------------------------------------------------------------------------


class SlowChannel:
    """Serves one channel so many messages a second, and keeps it out of the scheduler's line, as
    lab/stage does with queues."""

    def __init__(self, channel: Channel, per_s: int, world: LabWorld) -> None:
        self.channel = channel
        self.interval_ns = NS_PER_S // per_s
        self.world = world
        if channel in world.broker.scheduler.ready:
            world.broker.scheduler.ready.remove(channel)
        channel.is_ready = True

    def serve(self, now_ns: int) -> None:
        """One message; until the next it is busy with it."""
        channel = self.channel
        clock = self.world.clock
        channel.is_ready = False
        channel.turn(1)
        if channel in self.world.broker.scheduler.ready:
            self.world.broker.scheduler.ready.remove(channel)
        channel.is_ready = True
        channel.time.enter(BUSY, clock.monotonic_ns())


def _slow_channels(culprit: Culprit, world: LabWorld) -> None:
    """Every channel that presses is slow."""
    for site in world.sites:
        peer = site.peer
        if isinstance(peer, PublishingPeer) and peer.spec.name == "pressing":
            connection = world.broker.connections[site.link.name]
            slow = SlowChannel(connection.channels[peer.channel], culprit.small, world)
            world.every(slow.interval_ns, slow.serve)
