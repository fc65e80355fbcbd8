"""Changes on their way to the disk: order, group commit, a full disk, a failed one, the bound."""

from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from penstock.base.errors import ChannelFault
from penstock.base.limits import CATALOGUE_CHANGES
from penstock.base.policy import Policy
from penstock.broker.vhost.catalogue_rows import CatalogueChange, VhostRow
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Peer
from tests.unit.server.durable_bed import DurableBed, topology


def opened(path: Path, **settings: object) -> tuple[DurableBed, Peer]:
    bed = DurableBed(path / "metadata.sqlite", **settings)
    return bed, bed.connect()


def declare(
    peer: Peer,
    name: str,
    durable: bool = True,
    auto_delete: bool = False,
    exclusive: bool = False,
) -> None:
    declared = m.QueueDeclare(name, durable=durable, auto_delete=auto_delete, exclusive=exclusive)
    peer.call(1, declared, m.QueueDeclareOk)


def names(bed: DurableBed) -> set[object]:
    return {row[1] for row in topology(bed.broker)["queues"]}


def test_what_is_durable_comes_back_and_nothing_else(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "kept")
    declare(peer, "transient", durable=False)
    declare(peer, "mine", exclusive=True)
    peer.call(1, m.ExchangeDeclare("e", "topic", durable=True), m.ExchangeDeclareOk)
    peer.call(1, m.ExchangeDeclare("t", "topic"), m.ExchangeDeclareOk)
    arguments: Table = {
        "x-int": 1,
        "x-text": "1",
        "x-list": [True, None, 1.5],
        "x-table": {"a": b"\xff"},
    }
    for source in ("e", "t", "amq.fanout"):
        for queue in ("kept", "transient", "mine"):
            peer.call(1, m.QueueBind(queue, source, "k", arguments=arguments), m.QueueBindOk)
    peer.call(1, m.ExchangeBind("e", "amq.direct", "k"), m.ExchangeBindOk)
    before = topology(bed.broker)
    bed.close()
    again = DurableBed(tmp_path / "metadata.sqlite")
    assert topology(again.broker) == before
    assert {row[1] for row in before["queues"]} == {"kept"}
    assert {row[1:4] for row in before["bindings"]} == {
        ("e", "q", "kept"),
        ("amq.fanout", "q", "kept"),
        ("amq.direct", "e", "e"),
    }
    assert set(again.broker.vhosts["/"].queues) == {"kept"}
    again.close()


def test_a_declaration_is_answered_before_the_disk_has_it(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "q")
    assert len(bed.disk.jobs) == 1 and bed.catalogue.written == 0
    bed.crash()
    assert names(DurableBed(bed.path)) == set()


def test_what_comes_while_a_job_runs_is_one_more_job(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    for number in range(50):
        declare(peer, f"q{number}")
    assert len(bed.disk.jobs) == 1
    bed.disk.work(1)
    assert len(bed.disk.jobs) == 1 and bed.catalogue.written == 1
    bed.disk.work(1)
    assert bed.disk.jobs == [] and bed.catalogue.written == 50 and not bed.catalogue.waiting
    bed.crash()
    assert len(names(DurableBed(bed.path))) == 50


def test_a_mark_is_reached_when_the_disk_has_all_before_it(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "a")
    declare(peer, "b")
    mark = bed.catalogue.hand_over()
    declare(peer, "c")
    assert len(bed.disk.jobs) == 2 and not bed.catalogue.has(mark)
    bed.disk.work(1)
    assert not bed.catalogue.has(mark)
    bed.disk.work(1)
    assert bed.catalogue.has(mark) and not bed.catalogue.has(bed.catalogue.hand_over())
    bed.close()


def test_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Not after a deletion, and not after a restart, of the highest either."""
    seen: set[int] = set()
    for _ in range(3):
        bed, peer = opened(tmp_path)
        for name in ("a", "b"):
            declare(peer, name)
            queue_id = bed.broker.vhosts["/"].queues[name].queue_id
            assert queue_id > 0 and queue_id not in seen
            seen.add(queue_id)
            peer.call(1, m.QueueDelete(name), m.QueueDeleteOk)
        bed.close()


def test_a_full_disk_is_tried_again_in_order(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    bed.disk.fault = OSError(ENOSPC, "full")
    declare(peer, "a")
    declare(peer, "gone")
    bed.catalogue.hand_over()
    peer.call(1, m.QueueDelete("gone"), m.QueueDeleteOk)
    bed.disk.work()
    bed.catalogue.tick()
    bed.disk.work()
    assert len([line for line in bed.log.lines if "disk is full" in line]) == 1
    bed.disk.fault = None
    declare(peer, "b")
    assert bed.disk.jobs == [], "only a tick tries again"
    bed.catalogue.tick()
    bed.disk.work()
    assert bed.catalogue.written == 4 and not bed.catalogue.is_full
    assert any("takes changes" in line for line in bed.log.lines)
    bed.crash()
    assert names(DurableBed(bed.path)) == {"a", "b"}


def test_a_job_behind_one_that_failed_changes_nothing(tmp_path: Path) -> None:
    """It would be there without what came before it."""
    bed, peer = opened(tmp_path)
    declare(peer, "a")
    declare(peer, "b")
    bed.catalogue.hand_over()
    bed.disk.fault = OSError(ENOSPC, "full")
    bed.disk.work(1)
    bed.disk.fault = None
    bed.disk.work(1)
    assert bed.catalogue.written == 0 and bed.catalogue.is_full
    bed.catalogue.tick()
    bed.disk.work()
    assert bed.catalogue.written == 2
    bed.close()


def test_any_other_error_is_final(tmp_path: Path) -> None:
    """F4: nothing is handed over again, nothing more is taken, what goes still goes."""
    bed, peer = opened(tmp_path)
    declare(peer, "a")
    bed.disk.fault = OSError(EIO, "broken")
    bed.disk.work()
    bed.disk.fault = None
    (text, error), *rest = bed.log.errors
    assert "cannot be kept" in text and rest == [] and bed.catalogue.failure is error
    bed.catalogue.tick()
    bed.catalogue.hand_over()
    assert bed.disk.jobs == []
    peer.say(1, m.QueueDeclare("b", durable=True))
    closed = peer.one(m.ChannelClose)
    assert closed.reply_code == 406 and "the disk has failed" in closed.reply_text
    bed.crash()


def test_too_many_changes_are_refused_and_deletions_are_not(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "a")
    vhost = bed.broker.vhosts["/"]
    exchange = vhost.find_exchange("amq.direct")
    assert exchange is not None
    full = [CatalogueChange(True, VhostRow("x"))] * CATALOGUE_CHANGES.default
    bed.catalogue.waiting.extend(full)
    with pytest.raises(ChannelFault, match="changes wait for the disk") as caught:
        vhost.bind(exchange, vhost.queues["a"].target, "k", {}, 50)
    assert caught.value.code == 406 and exchange.binding_count == 0
    peer.say(1, m.QueueDeclare("b", durable=True))
    assert peer.one(m.ChannelClose).reply_code == 406
    assert "b" not in vhost.queues
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    declare(peer, "c", durable=False)
    peer.call(1, m.QueueDelete("a"), m.QueueDeleteOk)
    assert len(bed.catalogue.waiting) == CATALOGUE_CHANGES.default + 2
    bed.crash()


def test_an_auto_delete_queue_is_kept_until_it_goes(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "q", auto_delete=True)
    bed.close()
    bed, peer = opened(tmp_path)
    assert names(bed) == {"q"}
    peer.call(1, m.BasicConsume("q", "tag"), m.BasicConsumeOk)
    peer.call(1, m.BasicCancel("tag"), m.BasicCancelOk)
    bed.close()
    assert names(DurableBed(bed.path)) == set()


def test_an_auto_delete_exchange_goes_with_its_last_binding(tmp_path: Path) -> None:
    """Undone by itself, or lost with the queue."""
    for end in (m.QueueUnbind("q", "e", "k"), m.QueueDelete("q")):
        bed, peer = opened(tmp_path)
        declare(peer, "q")
        declared = m.ExchangeDeclare("e", "direct", durable=True, auto_delete=True)
        peer.call(1, declared, m.ExchangeDeclareOk)
        peer.call(1, m.QueueBind("q", "e", "k"), m.QueueBindOk)
        bed.close()
        bed, peer = opened(tmp_path)
        assert bed.broker.vhosts["/"].find_exchange("e") is not None
        peer.say(1, end)
        peer.heard()
        bed.close()
        assert topology(DurableBed(bed.path).broker)["exchanges"] == set()


def test_a_queue_that_crashed_is_kept_until_another_has_its_name(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    declare(peer, "q")
    peer.call(1, m.QueueBind("q", "amq.direct", "k"), m.QueueBindOk)
    before = topology(bed.broker)
    vhost = bed.broker.vhosts["/"]
    vhost.remove_queue(vhost.queues["q"], True)
    bed.close()
    bed, peer = opened(tmp_path)
    assert topology(bed.broker) == before
    vhost = bed.broker.vhosts["/"]
    vhost.remove_queue(vhost.queues["q"], True)
    declare(peer, "q")
    bed.close()
    found = topology(DurableBed(bed.path).broker)
    assert {row[2] for row in found["queues"]} == {2} and found["bindings"] == set()


def test_policies_and_limits_come_back(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    policy = Policy("/", "short", "^q", {"max-length": 3})
    for is_operator in (False, True):
        bed.broker.policy_manager.set(policy, is_operator)
        bed.broker.policy_manager.set(Policy("/", "gone", "x", {"max-length": 1}), is_operator)
        bed.broker.policy_manager.clear("/", "gone", is_operator)
    bed.broker.limits.set("vhost", "/", {"max-queues": 7})
    bed.broker.limits.set("user", "guest", {"max-channels": 8})
    bed.broker.limits.set("user", "guest", {"max-connections": 9})
    bed.broker.limits.clear("user", "guest", ["max-connections"])
    declare(peer, "q")
    bed.close()
    again = DurableBed(bed.path)
    assert again.broker.policies.listing(False) == [policy]
    assert again.broker.policies.listing(True) == [policy]
    assert [(row.kind, dict(row.limits)) for row in again.broker.limits.rows()] == [
        ("vhost", {"max-queues": 7}),
        ("user", {"max-channels": 8}),
    ]
    queue_limits = again.broker.vhosts["/"].queues["q"].queue_limits
    assert queue_limits is not None and queue_limits.rules.max_length == 3
    again.close()


def test_an_auto_delete_exchange_goes_with_the_exchange_it_was_bound_to(tmp_path: Path) -> None:
    bed, peer = opened(tmp_path)
    for name in ("from", "to"):
        declared = m.ExchangeDeclare(name, "direct", durable=True, auto_delete=name == "from")
        peer.call(1, declared, m.ExchangeDeclareOk)
    peer.call(1, m.ExchangeBind("to", "from", "k"), m.ExchangeBindOk)
    peer.call(1, m.ExchangeDelete("to"), m.ExchangeDeleteOk)
    bed.close()
    assert topology(DurableBed(bed.path).broker)["exchanges"] == set()
