"""Why a consumer is given nothing, and sums of pages in snapshots."""

from penstock.broker.admin.page_sums import STEP_PAGES
from penstock.broker.admin.view_memory import STEP_ACTORS, ViewMemory
from penstock.broker.admin.views import actor_snapshots, snapshot_steps
from penstock.explain.explain import explain
from penstock.explain.explanation import FREE, THROTTLED, Explanation
from penstock.protocol import methods as m
from penstock.queues.hold_reasons import REASON_UNSENT
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.telemetry.window import WindowHistory
from tests.unit.broker.peer import MS, Bed, Peer, publish

SECOND = 1000 * MS
UNSENT = 200
"""Of the profile: far fewer bytes than the output's high mark, where messages are small."""


class Watch:
    """A history of the bed, with a round whenever it is asked for one."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.history = WindowHistory(60)
        self.round()

    def round(self) -> None:
        now_ns = self.bed.clock.monotonic_ns()
        self.history.push(now_ns, actor_snapshots(self.bed.broker))

    def why(self, kind: str, name: str) -> Explanation:
        self.round()
        windows = self.history.over(10.0)
        return explain(kind, name, windows, self.bed.clock.monotonic_ns())


def consuming(bed: Bed) -> Peer:
    """Consumes from q without acknowledgements, and its socket takes nothing from now on."""
    peer = bed.connect("c")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.BasicConsume("q", "lazy", no_ack=True), m.BasicConsumeOk)
    peer.output.room_bytes = 0
    return peer


def fill(bed: Bed, count: int) -> None:
    publisher = bed.connect("p")
    publisher.publish("q", *[b"x" * 10] * count)
    publisher.hang_up()


def test_a_full_socket_holds_a_consumer_without_acknowledgements() -> None:
    bed = Bed()
    peer = consuming(bed)
    watch = Watch(bed)
    fill(bed, 300)
    assert peer.output.is_open, "small messages do not reach the high mark"
    bed.clock.advance(10 * SECOND)
    answer = watch.why("consumer", "lazy")
    assert answer.state == THROTTLED and answer.blocked_share > 0.99
    assert [(one.root, one.reason) for one in answer.causes] == [("consumer:lazy@conn:c", "socket")]
    assert "does not read" in answer.text


def test_it_is_said_even_when_the_socket_takes_something_at_that_moment() -> None:
    """Nobody is held any more when the question is asked; that it was is in the time."""
    bed = Bed()
    peer = consuming(bed)
    watch = Watch(bed)
    fill(bed, 300)
    bed.clock.advance(6 * SECOND)
    peer.take()
    bed.clock.advance(4 * SECOND)
    answer = watch.why("consumer", "lazy")
    assert answer.state == THROTTLED
    assert abs(answer.blocked_share - 0.6) < 0.01
    assert answer.causes[0].reason == "socket"
    bed.clock.advance(20 * SECOND)
    watch.round()
    bed.clock.advance(10 * SECOND)
    assert watch.why("consumer", "lazy").state == FREE


def test_a_socket_that_was_full_before_the_limit_was_reached_counts_from_then() -> None:
    bed = Bed()
    consuming(bed)
    watch = Watch(bed)
    fill(bed, UNSENT // 2)
    bed.clock.advance(5 * SECOND)
    assert watch.why("consumer", "lazy").state == FREE, "it may be given more"
    fill(bed, UNSENT)
    bed.clock.advance(5 * SECOND)
    assert abs(watch.why("consumer", "lazy").blocked_share - 0.5) < 0.01


def test_the_end_of_a_turn_is_no_full_socket() -> None:
    """Far more than the limit passes, and each time it is only the next send that is waited for."""
    bed = Bed()
    peer = consuming(bed)
    peer.take()
    watch = Watch(bed)
    for _ in range(10):
        fill(bed, 3 * UNSENT)
        bed.clock.advance(SECOND)
    assert len(peer.heard()) == 30 * UNSENT
    answer = watch.why("consumer", "lazy")
    assert answer.state == FREE and answer.blocked_ns == 0
    # Between the actors' turns and the send it waits, but it is nobody's doing.
    (consumer,) = bed.broker.vhosts["/"].queues["q"].consumers
    publisher = bed.connect("p")
    publisher.connection.receive(publish(1, "", "q", b"x") * (int(consumer.unsent.limit) + 1))
    bed.broker.scheduler.run_actors(1 << 62)
    assert consumer.reason == REASON_UNSENT and not consumer.is_ready
    assert not consumer.is_held


def test_who_is_bounded_by_a_window_is_held_by_that() -> None:
    bed = Bed()
    peer = bed.connect("c")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.BasicQos(0, 5, True), m.BasicQosOk)
    peer.call(1, m.BasicConsume("q", "slow"), m.BasicConsumeOk)
    watch = Watch(bed)
    fill(bed, 20)
    bed.clock.advance(10 * SECOND)
    answer = watch.why("consumer", "slow")
    assert (answer.state, answer.causes[0].reason) == (THROTTLED, "consumer")
    assert "prefetch window full" in answer.causes[0].detail
    # It was held all the time, but is not when the question is asked.
    for _ in range(4):
        peer.say(1, m.BasicAck(0, True))
    assert peer.connection.channels[1].table.count == 0
    bed.clock.advance(MS)
    answer = watch.why("consumer", "slow")
    assert answer.causes[0].reason == "consumer"
    assert "prefetch window full" in answer.causes[0].detail


ENDED = 3 * STEP_PAGES


def test_connections_that_ended_are_added_in_steps() -> None:
    bed = Bed()
    peer = bed.connect("last")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for number in range(ENDED):
        gone = bed.connect(f"gone-{number}")
        gone.publish("q", b"x" * 100)
        gone.hang_up()
    peer.publish("q", b"y" * 50)
    found = list(snapshot_steps(bed.broker))
    assert found.count(None) == ENDED // STEP_PAGES
    by_actor = {one.actor: one for one in found if one is not None}
    stored = float(bed.broker.vhosts["/"].queues["q"].messages.bytes_ready)
    own = by_actor["conn:last"].numbers["stored_bytes"]
    assert 0 < own < stored
    for page in ("user:guest@/", "vhost:/", "node"):
        assert by_actor[page].numbers["stored_messages"] == ENDED + 1
        assert by_actor[page].numbers["stored_bytes"] == stored
    assert by_actor["user:guest@/"].numbers["ended_bytes"] == stored - own
    assert by_actor["node"].numbers == actor_snapshots(bed.broker)["node"].numbers


def test_who_is_gone_is_forgotten_in_steps() -> None:
    bed = Bed()
    peers = [bed.connect(f"p{number}") for number in range(2 * STEP_ACTORS)]
    memory = ViewMemory()
    list(snapshot_steps(bed.broker, memory))
    for peer in peers:
        peer.hang_up()
    memory.begin_round()
    assert sum(1 for _ in memory.forgetting()) == 2
    assert memory.recall("conn:p0", ()) is None


def test_a_quorum_queue_says_that_its_store_has_to_answer() -> None:
    bed = Bed()
    disk = HandDisk()
    give_store(bed.broker, disk, SimDisk(), 1 << 20)
    peer = bed.connect("p")
    quorum = m.QueueDeclare("q", durable=True, arguments={"x-queue-type": "quorum"})
    peer.call(1, quorum, m.QueueDeclareOk)
    bed.broker.replicas = "node b lacks 2 entries"
    watch = Watch(bed)
    peer.publish("q", b"1", b"2")
    bed.clock.advance(SECOND)
    note = "queue /q has 2 messages that it gives out when store / answers (node b lacks 2 entries)"
    assert watch.why("queue", "q").notes == (note,)
    while disk.work():
        bed.run()
    bed.clock.advance(SECOND)
    assert watch.why("queue", "q").notes == (), "now they are ready"
