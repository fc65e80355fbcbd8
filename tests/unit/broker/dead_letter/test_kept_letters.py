"""Dead letters that go to several durable queues, of which one does not take them: what is charged
for the copies is repaid, although another queue has its copy on the disk."""

from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from tests.unit.broker.letter_bed import pages_of
from tests.unit.broker.peer import Peer
from tests.unit.server.lease_bed import LeaseBed

FULL: Table = {"x-max-length": 0, "x-overflow": "reject-publish"}
AT_LEAST_ONCE: Table = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def began(path: Path, rules: Table, refusing: Table) -> tuple[LeaseBed, Peer]:
    """Queue q has three messages; what dies there goes to a, and to b, which has the rules
    `refusing`."""
    bed = LeaseBed(path)
    peer = bed.connect("peer")
    peer.call(1, m.ExchangeDeclare("dead", "fanout", durable=True), m.ExchangeDeclareOk)
    for name, table in (
        ("q", {"x-dead-letter-exchange": "dead", **rules}),
        ("a", {}),
        ("b", refusing),
    ):
        peer.call(1, m.QueueDeclare(name, durable=True, arguments=table), m.QueueDeclareOk)
        if name != "q":
            peer.call(1, m.QueueBind(name, "dead", ""), m.QueueBindOk)
    bed.publish(peer, b"one" * 100, b"two" * 100, b"three" * 100)
    return bed, peer


def reject_all(bed: LeaseBed, peer: Peer) -> None:
    """The messages of q are rejected, and the disk has the letters."""
    for _ in range(3):
        tag = peer.call(1, m.BasicGet("q", False), m.BasicGetOk).delivery_tag
        peer.say(1, m.BasicReject(tag, False))
    bed.work()


def charged(bed: LeaseBed) -> int:
    return sum(int(page.stored_bytes) for page in pages_of(bed.broker.node_account))


def resting(bed: LeaseBed, *names: str) -> int:
    """What the ready messages of these queues take."""
    queues = [bed.broker.vhosts["/"].queues[name] for name in names]
    return sum(
        len(one.raw) + MESSAGE_OVERHEAD_BYTES
        for queue in queues
        for one in queue.messages.ready_messages()
    )


@pytest.mark.parametrize("rules", [{}, AT_LEAST_ONCE], ids=["at-most-once", "at-least-once"])
def test_what_one_of_two_targets_refuses_is_not_charged_for_ever(
    tmp_path: Path, rules: Table
) -> None:
    bed, peer = began(tmp_path, rules, FULL)
    reject_all(bed, peer)
    for _ in range(30):
        bed.pass_time(100)
        bed.work()
    assert bed.broker.vhosts["/"].queues["a"].messages.ready_count() == 3
    peer.call(1, m.QueuePurge("a"), m.QueuePurgeOk)
    peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.work()
    assert charged(bed) == resting(bed, "a", "b") == 0
    bed.end()


def test_what_a_deleted_target_had_in_its_mailbox_is_not_charged_for_ever(tmp_path: Path) -> None:
    bed, peer = began(tmp_path, {}, {})
    target = bed.broker.vhosts["/"].queues["b"]
    target.is_ready = True
    reject_all(bed, peer)
    assert (target.messages.ready_count(), len(target.lanes[0].items)) == (0, 3)
    bed.broker.vhosts["/"].remove_queue(target)
    bed.work()
    assert charged(bed) == resting(bed, "a") > 0
    bed.end()


def test_what_a_deleted_target_had_taken_is_repaid_once(tmp_path: Path) -> None:
    """Its letters were on their way to the disk."""
    bed, peer = began(tmp_path, {}, {})
    for _ in range(3):
        tag = peer.call(1, m.BasicGet("q", False), m.BasicGetOk).delivery_tag
        peer.say(1, m.BasicReject(tag, False))
    bed.run()
    target = bed.broker.vhosts["/"].queues["b"]
    assert target.messages.ready_count() == 3 and bed.disk.jobs
    bed.broker.vhosts["/"].remove_queue(target)
    bed.work()
    assert charged(bed) == resting(bed, "a") > 0
    bed.end()
