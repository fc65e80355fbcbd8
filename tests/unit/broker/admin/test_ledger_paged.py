"""What a queue has on the disk is in the ledger, on the page of who published it."""

from pathlib import Path

import pytest

from penstock.base.steps import whole
from penstock.broker.admin.answers import AccountRow, CauseRow
from penstock.broker.admin.flow_ledger import ledger_rows
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.explain.naming import Names
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed

TRANSIENT = (0x1000, b"\x01")
BODY = bytes(5_000)


def row(bed: LeaseBed, name: str) -> AccountRow:
    (found,) = [one for one in ledger_rows(bed.broker) if one.name == name]
    return found


def causes(bed: LeaseBed) -> dict[str, CauseRow]:
    found = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(99)))
    return {one.account: one for one in found.rows}


def filled(
    path: Path, properties: tuple[int, bytes], arguments: Table, counts: dict[str, int]
) -> tuple[LeaseBed, dict[str, Peer]]:
    """Queue q, which keeps a dozen messages in memory, with so many of each publisher, in turn."""
    bed = LeaseBed(path, queue_depth_bytes=120_000)
    peers = {name: bed.connect(name) for name in counts}
    first = next(iter(peers.values()))
    say = m.QueueDeclare("q", durable=True, arguments=arguments)
    first.call(1, say, m.QueueDeclareOk)
    bed.work()
    left = dict(counts)
    while any(left.values()):
        for name, count in left.items():
            if count > 0:
                peers[name].send(publish(1, "", "q", BODY, properties))
                left[name] -= 1
        bed.work()
    return bed, peers


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}], ids=["plain", "priorities"])
@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["kept", "paged"])
def test_stored_is_all_there_is(
    tmp_path: Path, properties: tuple[int, bytes], arguments: Table
) -> None:
    bed, peers = filled(tmp_path, properties, arguments, {"web": 150, "job": 50})
    on_disk = int(bed.actor("q").messages.paged_count())
    assert on_disk > 150
    web, job, node = (row(bed, name) for name in ("conn:web", "conn:job", "node"))
    assert (web.stored_messages, job.stored_messages, node.stored_messages) == (150, 50, 200)
    assert web.paged_messages + job.paged_messages == node.paged_messages == on_disk
    assert node.stored_bytes == pytest.approx(200 * len(BODY), rel=0.03)
    assert node.paged_bytes == pytest.approx(on_disk * len(BODY), rel=0.02)
    found = causes(bed)
    assert (found["conn:web"].ready, found["conn:job"].ready) == (150, 50)
    assert found["conn:web"].paged == web.paged_messages
    assert found["conn:web"].share == pytest.approx(0.75, abs=0.02)
    assert not whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(99))).is_estimate
    peers["web"].call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    bed.work()
    assert (row(bed, "node").stored_messages, row(bed, "node").paged_messages) == (0, 0)
    assert row(bed, "node").paged_bytes == 0 and causes(bed) == {}
    bed.die()


def test_what_a_connection_left_on_the_disk_is_its_users(tmp_path: Path) -> None:
    bed, peers = filled(tmp_path, PERSISTENT, {}, {"web": 100})
    peers["web"].hang_up()
    bed.work()
    user = row(bed, "user:guest@/")
    assert user.stored_messages == 100 and user.paged_messages > 70
    assert causes(bed)["conn:web"].ready == 100, "who it was is known while the broker runs"
    bed.die()


def test_after_a_start_the_virtual_host_has_it(tmp_path: Path) -> None:
    bed, _ = filled(tmp_path, PERSISTENT, {}, {"web": 100})
    bed.end()
    bed = LeaseBed(tmp_path, queue_depth_bytes=120_000)
    bed.work()
    assert row(bed, "vhost:/").stored_messages == 100
    assert causes(bed)["vhost:/"].ready == 100
    assert causes(bed)["vhost:/"].bytes >= 100 * len(BODY) + 10 * MESSAGE_OVERHEAD_BYTES
    bed.die()


def test_what_is_delivered_is_not_lost_either(tmp_path: Path) -> None:
    bed, _ = filled(tmp_path, PERSISTENT, {}, {"web": 100})
    reader = bed.connect("reader")
    reader.call(1, m.BasicQos(prefetch_count=20), m.BasicQosOk)
    reader.say(1, m.BasicConsume(queue="q"))
    bed.work()
    web = causes(bed)["conn:web"]
    assert (web.ready, web.unanswered, web.messages) == (80, 20, 100)
    assert row(bed, "conn:web").stored_messages == 100
    bed.die()
