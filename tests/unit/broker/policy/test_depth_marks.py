"""Depth marks by argument, policy and setting: who counts, and what a change does to senders."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import DEPTH_MARKS
from penstock.base.policy import Policy
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.settings.depth_setting import CHANGES_PER_SLICE
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from tests.unit.broker.peer import Bed, Peer

NODE = 100_000
NS_PER_S = 1_000_000_000


def begun(profile: str = "penstock", **arguments: object) -> tuple[Bed, Peer, ClassicActor]:
    """A broker whose queues have a mark of NODE, a peer, and the queue q."""
    bed = Bed(queue_depth_bytes=NODE, profile=profile)
    peer = bed.connect()
    return bed, peer, declared(peer, "q", **arguments)


def declared(peer: Peer, name: str, **arguments: object) -> ClassicActor:
    table: Table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}  # type: ignore[misc]  # plain values
    peer.call(1, m.QueueDeclare(name, arguments=table), m.QueueDeclareOk)
    actor = peer.bed.actor(name)
    assert isinstance(actor, ClassicActor)
    return actor


def put(bed: Bed, depth: int, is_operator: bool = False) -> None:
    said = Policy("/", "deep", "^q", {"depth-mark": depth})
    bed.broker.policy_manager.set(said, is_operator)
    bed.run()


def change(bed: Bed, key: str, text: str, for_ns: int = 0) -> None:
    bed.broker.changes.change([(key, text)], for_ns)
    bed.run()


def mark(actor: ClassicActor) -> tuple[int, str]:
    return int(actor.depth_bytes), actor.depth_source


def held(actor: ClassicActor) -> int:
    assert actor.room is not None
    return int(actor.content_bytes() + actor.room.in_flight_bytes)


def test_who_says_the_mark_of_a_queue() -> None:
    bed, peer, actor = begun()
    assert mark(actor) == (NODE, "")
    put(bed, 50_000)
    assert mark(actor) == (50_000, "policy 'deep'")
    other = declared(peer, "q2", depth_mark=20_000)
    assert mark(other) == (20_000, "x-depth-mark"), "the smaller one"
    put(bed, 0)
    assert mark(actor) == (0, "policy 'deep'"), "0 is none"
    assert mark(other) == (20_000, "x-depth-mark")
    put(bed, 30_000, is_operator=True)
    assert mark(actor) == (30_000, "operator policy 'deep'")
    change(bed, "queue.depth:/q", "70000")
    assert mark(actor) == (70_000, "queue.depth:/q")
    change(bed, "queue.depth:/q", "default")
    assert mark(actor) == (30_000, "operator policy 'deep'")
    for is_operator in (True, False):
        bed.broker.policy_manager.clear("/", "deep", is_operator)
        bed.run()
    assert mark(actor) == (NODE, "")


def test_an_argument_that_is_no_mark_is_refused_and_a_different_one_is_another_queue() -> None:
    bed, peer, _ = begun(depth_mark=5)
    peer.say(1, m.QueueDeclare("q", arguments={"x-depth-mark": 6}))
    assert "inequivalent arg 'x-depth-mark'" in peer.one(m.ChannelClose).reply_text
    other = bed.connect("other")
    other.say(1, m.QueueDeclare("r", arguments={"x-depth-mark": -1}))
    assert other.one(m.ChannelClose).reply_code == 406


def test_the_nodes_mark_reaches_every_queue_in_slices_but_not_those_with_their_own() -> None:
    bed, peer, actor = begun()
    own = declared(peer, "own", depth_mark=7_000)
    many = [declared(peer, f"m{at}") for at in range(CHANGES_PER_SLICE + 3)]
    bed.broker.settings.write("queue.depth", "40kB")
    assert {int(one.depth_bytes) for one in many} == {NODE, 40_000}, "a slice, not all at once"
    bed.run()
    assert {int(one.depth_bytes) for one in (*many, actor)} == {40_000}
    assert mark(own) == (7_000, "x-depth-mark")
    assert declared(peer, "new").depth_bytes == 40_000
    change(bed, "queue.depth", "off")
    assert mark(actor) == (0, "") and bed.broker.settings.get("queue.depth").read() == "off"


def test_a_change_for_a_time_is_taken_back() -> None:
    bed, _, actor = begun()
    change(bed, "queue.depth:/q", "1MiB", NS_PER_S)
    assert mark(actor) == (1 << 20, "queue.depth:/q")
    assert [one.key for one in bed.broker.settings.all()].count("queue.depth:/q") == 1
    bed.later(NS_PER_S)
    assert mark(actor) == (NODE, "")
    assert bed.broker.depth_marks.named() == []


def test_a_queue_that_does_not_exist_yet_has_the_mark_that_was_set_for_it() -> None:
    bed, peer, _ = begun()
    change(bed, "queue.depth:/later", "12345")
    assert bed.broker.settings.get("queue.depth:/later").read() == "12345"
    assert mark(declared(peer, "later")) == (12_345, "queue.depth:/later")


@pytest.mark.parametrize("text", ["0", "-1", "much", "2TiB", "default"])
def test_what_is_no_mark(text: str) -> None:
    bed, _, actor = begun()
    with pytest.raises(OperatorError, match=r"queue\.depth"):
        bed.broker.settings.write("queue.depth", text)
    with pytest.raises(OperatorError, match="write VHOST/QUEUE"):
        bed.broker.settings.write("queue.depth:q", "1MB")
    assert mark(actor) == (NODE, "")


def test_only_so_many_queues_have_a_mark_of_their_own() -> None:
    bed, _, _ = begun()
    for at in range(DEPTH_MARKS.default):
        bed.broker.depth_marks.set_named(f"/{at}", 1)
    with pytest.raises(OperatorError, match=r"queue\.depth:NAME=default"):
        bed.broker.settings.write("queue.depth:/q", "5")


def test_a_profile_without_marks_has_none_whoever_says_so() -> None:
    bed, _, actor = begun("rabbitmq-4", depth_mark=500)
    put(bed, 100)
    assert mark(actor) == (0, "")
    with pytest.raises(OperatorError, match="no depth marks"):
        bed.broker.settings.write("queue.depth", "1MB")
    assert bed.broker.settings.get("queue.depth").read() == "off"


def test_senders_go_on_under_a_higher_mark_and_wait_under_a_lower_one() -> None:
    bed, peer, actor = begun()
    one = 1000 + MESSAGE_OVERHEAD_BYTES
    peers = [peer, bed.connect("p2"), bed.connect("p3")]
    change(bed, "queue.depth:/q", "20000")

    def press(count: int) -> None:
        for at in range(count):
            for sender in peers:
                sender.publish("q", b"%d" % (at % 10) * 1000)
        bed.run()

    press(30)
    # A publish has a head of its own beside its body.
    assert 20_000 - 2 * one <= held(actor) <= 20_000 + 2 * one
    assert actor.is_deep
    change(bed, "queue.depth:/q", "50000")
    assert 50_000 - 2 * one <= held(actor) <= 50_000 + 2 * one
    before = held(actor)
    change(bed, "queue.depth:/q", "10000")
    assert actor.room is not None
    actor.room.check()
    assert held(actor) == before, "nothing more comes in"
    purged = peer.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count
    bed.run()
    assert held(actor) <= 10_000 + 2 * one
    change(bed, "queue.depth:/q", "off")
    assert actor.gate.is_open and not actor.room.is_tight
    assert actor.messages.ready_count() == 90 - purged
    bed.settle()


def test_the_name_of_a_virtual_host_may_have_slashes() -> None:
    bed = Bed(queue_depth_bytes=NODE, vhosts=("/", "/prod", "a/b"))
    for vhost in ("/", "/prod", "a/b"):
        peer = bed.connect(f"peer of {vhost}", vhost=vhost)
        peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    queues = {name: bed.broker.vhosts[name].queues["q"] for name in ("/", "/prod", "a/b")}
    for name, depth in (("/q", 1000), ("/prod/q", 2000), ("a/b/q", 3000)):
        change(bed, f"queue.depth:{name}", str(depth))
    assert {name: int(one.depth_bytes) for name, one in queues.items()} == {
        "/": 1000,
        "/prod": 2000,
        "a/b": 3000,
    }
    change(bed, "queue.depth:/prod/q", "default")
    assert int(queues["/prod"].depth_bytes) == NODE
