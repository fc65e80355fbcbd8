"""Staged transactions: what is staged is nowhere, what is committed is everywhere, once."""

from penstock.base.limits import (
    TRANSACTION_APPS,
    TRANSACTION_TTL_MS,
    TRANSACTION_WAITING,
    TRANSACTIONS_BYTES,
)
from penstock.broker.admin import vhosts
from penstock.broker.transaction.transaction_manager import LOOK_NS, RETRY_NS
from penstock.protocol import methods as m
from tests.unit.broker.commit_bed import (
    PERSISTENT,
    CommitBed,
    answer,
    ask,
    closed,
    refusal,
    stage,
)
from tests.unit.broker.peer import Bed, publish


def test_staged_is_nowhere_and_committed_is_everywhere_when_the_disk_has_it() -> None:
    yard = CommitBed()
    one = stage(yard, ("a", b"1"), ("b", b"2"))
    two = stage(yard, ("a", b"3"))
    yard.write()
    assert (yard.ready("a"), yard.ready("b")) == ([], [])
    driver = yard.commit(one, two)
    assert driver.heard() == []
    assert (yard.ready("a"), yard.ready("b")) == ([], []), "nothing is seen before it is safe"
    yard.write()
    assert answer(driver) == {"committed": True, "already": False, "messages": 3}
    assert (yard.ready("a"), yard.ready("b")) == ([b"1", b"3"], [b"2"])
    assert yard.found() == {"a": [b"1", b"3"], "b": [b"2"], "": [b"0"]}
    yard.settle()


def test_a_batch_is_committed_once() -> None:
    yard = CommitBed()
    for batch, is_again in ((0, False), (1, False), (1, True), (0, True), (2, False)):
        identity = stage(yard, ("a", str(batch).encode()), batch=batch)
        driver = yard.commit(identity, batch=batch)
        yard.write()
        assert answer(driver)["already"] is is_again
    assert yard.ready("a") == [b"0", b"1", b"2"]
    assert yard.broker.transactions.stages == {}
    assert yard.broker.transactions.reserved_bytes == 0
    yard.later(1_100_000_000)
    yard.write()
    assert yard.found()[""] == [b"2"], "marks of earlier batches are settled"
    assert ask(driver, "last", app="q")["batch"] == 2
    assert ask(driver, "last", app="other")["batch"] == -1
    assert ask(driver, "forget", app="q")["forgotten"] is True
    assert ask(driver, "last", app="q")["batch"] == -1


def test_queues_take_nothing_else_between_the_log_and_the_commit() -> None:
    """So that the order in a queue is that of its positions in the log."""
    yard = CommitBed()
    writer = yard.connect("writer")
    writer.send(publish(1, "", "a", b"before", PERSISTENT))
    identity = stage(yard, ("a", b"staged"))
    yard.commit(identity)
    writer.send(publish(1, "", "a", b"behind", PERSISTENT))
    assert yard.ready("a") == [b"before"]
    yard.write()
    assert yard.ready("a") == [b"before", b"staged", b"behind"]
    yard.write()
    assert yard.found()["a"] == [b"before", b"staged", b"behind"]


def test_what_is_committed_can_be_consumed_and_settled() -> None:
    yard = CommitBed()
    identity = stage(yard, *(("a", str(n).encode()) for n in range(50)), ("b", b"x"), batch=7)
    driver = yard.commit(identity, batch=7)
    yard.write()
    answer(driver)
    reader = yard.connect("reader")
    reader.say(1, m.BasicConsume("a", "t"))
    heard = [one for one in reader.heard() if isinstance(one.method, m.BasicDeliver)]
    assert [one.body for one in heard] == [str(n).encode() for n in range(50)]
    reader.say(1, m.BasicAck(50, True))
    yard.later(1_100_000_000)
    yard.write()
    assert yard.found() == {"a": [], "b": [b"x"], "": [b"7"]}
    yard.settle()


def test_a_broker_that_keeps_nothing_commits_at_once() -> None:
    bed = Bed()
    peer = bed.connect("admin")
    peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
    identity = stage(bed, ("a", b"1"))
    assert ask(peer, "commit", app="q", batch=0, ids=[identity])["messages"] == 1
    assert ask(peer, "commit", app="q", batch=0, ids=[identity])["already"] is True
    assert peer.call(1, m.QueueDeclare("a", passive=True), m.QueueDeclareOk).message_count == 1
    bed.settle()


def test_a_virtual_host_that_is_made_anew_remembers_no_batch() -> None:
    """Or a new query in it would be told of all its batches that they are committed already."""
    bed = Bed()
    for _ in range(2):
        vhosts.add(bed.broker, "shop")
        peer = bed.connect("admin", vhost="shop")
        peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
        assert ask(peer, "last", app="q")["batch"] == -1
        identities = []
        for batch in (0, 1):
            identities.append(ask(peer, "begin", app="q", batch=batch, max_bytes=1000)["id"])
            peer.publish("a", b"1")
            ask(peer, "stage", id=identities[-1])
        assert ask(peer, "commit", app="q", batch=0, ids=identities[:1])["already"] is False
        vhosts.delete(bed.broker, "shop")
        bed.run()
        assert bed.broker.transactions.stages == {}, "nor what was staged in it"
        assert bed.broker.transactions.reserved_bytes == 0


def test_a_commit_that_the_end_of_its_virtual_host_overtakes() -> None:
    yard = CommitBed()
    vhosts.add(yard.broker, "shop")
    peer = yard.connect("admin", vhost="shop")
    identity = ask(peer, "begin", app="q", batch=3, max_bytes=1000)["id"]
    peer.publish("a", b"1")
    ask(peer, "stage", id=identity)
    peer.say(1, m.RequestAsk("transaction.commit", {"app": "q", "batch": 3, "ids": [identity]}))
    vhosts.delete(yard.broker, "shop")
    yard.write()
    yard.run()
    assert yard.broker.transactions.under_way == {}
    assert yard.broker.transactions.marks_of("shop").last == {}


def test_rolled_back_is_gone_and_cannot_be_committed() -> None:
    yard = CommitBed()
    driver = yard.connect("driver")
    one, two = stage(yard, ("a", b"1")), stage(yard, ("a", b"2"))
    assert ask(driver, "rollback", app="q", batch=0, ids=[one])["dropped"] == 1
    code, text = refusal(driver, "commit", app="q", batch=0, ids=[one, two])
    assert code == 404 and one in text
    again = yard.connect("again")
    assert ask(again, "rollback", app="q", batch=0)["dropped"] == 1
    assert yard.broker.transactions.reserved_bytes == 0
    yard.write()
    assert yard.ready("a") == []


def test_a_channel_that_ends_before_it_is_staged_rolls_back() -> None:
    yard = CommitBed()
    peer = yard.connect("task")
    ask(peer, "begin", app="q", batch=0, max_bytes=1000)
    peer.publish("a", b"1")
    peer.hang_up()
    yard.later(LOOK_NS)
    assert yard.broker.transactions.stages == {}
    assert yard.broker.transactions.reserved_bytes == 0


def test_what_nobody_commits_expires_and_the_log_says_so() -> None:
    yard = CommitBed()
    identity = stage(yard, ("a", b"1"))
    for _ in range(TRANSACTION_TTL_MS.default // 1000 + 1):
        yard.later(LOOK_NS)
    assert yard.broker.transactions.stages == {}
    assert any("batch 0" in line for line in yard.log.lines)
    assert refusal(yard.connect("d"), "commit", app="q", batch=0, ids=[identity])[0] == 404


def test_publishes_into_an_expired_transaction_are_refused() -> None:
    yard = CommitBed()
    peer = yard.connect("task")
    ask(peer, "begin", app="q", batch=0, ttl_ms=1000)
    yard.later(2 * LOOK_NS)
    peer.publish("a", b"1")
    assert closed(peer)[0] == 404


def test_what_does_not_fit_its_reservation_is_refused() -> None:
    yard = CommitBed()
    peer = yard.connect("task")
    ask(peer, "begin", app="q", batch=0, max_bytes=500)
    peer.publish("a", b"x" * 100)
    peer.publish("a", b"x" * 400)
    code, text = closed(peer)
    assert code == 406 and "500 bytes" in text
    yard.later(LOOK_NS)
    assert yard.broker.transactions.reserved_bytes == 0


def test_room_is_refused_rather_than_waited_for() -> None:
    yard = CommitBed()
    most = 64 * 1024 * 1024
    for number in range(TRANSACTIONS_BYTES.default // most):
        ask(yard.connect(f"t{number}"), "begin", app="q", batch=0, max_bytes=most)
    code, text = refusal(yard.connect("more"), "begin", app="q", batch=0, max_bytes=1)
    assert code == 406 and str(TRANSACTIONS_BYTES.default) in text


def test_the_number_of_apps_is_bounded() -> None:
    bed = Bed()
    peer = bed.connect("driver")
    for number in range(TRANSACTION_APPS.default):
        ask(peer, "commit", app=f"app{number}", batch=0, ids=[])
    code, text = refusal(bed.connect("more"), "begin", app="one more", batch=0)
    assert code == 406 and "transaction.forget" in text
    code, text = refusal(bed.connect("more2"), "commit", app="one more", batch=0, ids=[])
    assert code == 406


def test_queues_that_cannot_take_part_refuse_all_of_it() -> None:
    yard = CommitBed()
    yard.declare("t", {"x-max-length": 1, "x-overflow": "reject-publish"})
    peer = yard.connect("task")
    identity = ask(peer, "begin", app="q", batch=0)["id"]
    peer.publish("a", b"1")
    peer.publish("t", b"2", b"3")
    ask(peer, "stage", id=identity)
    code, text = refusal(peer, "commit", app="q", batch=0, ids=[identity])
    assert yard.broker.transactions.stages, "it can be committed when there is room"
    assert code == 406 and "rejects publishes" in text
    yard.write()
    assert yard.ready("a") == []


def test_a_mandatory_publish_that_reaches_no_queue_refuses_all_of_it() -> None:
    yard = CommitBed()
    peer = yard.connect("task")
    identity = ask(peer, "begin", app="q", batch=0)["id"]
    peer.send(publish(1, "", "nowhere", b"1", PERSISTENT, mandatory=True))
    code, text = refusal(peer, "stage", id=identity)
    assert code == 406 and "nowhere" in text
    assert yard.broker.transactions.stages == {}


def test_a_full_queue_lets_the_commit_wait() -> None:
    yard = CommitBed()
    yard.declare("t", {"x-max-length": 2, "x-overflow": "backpressure"})
    yard.admin.send(*(publish(1, "", "t", b"old", PERSISTENT) for _ in range(2)))
    yard.write()
    identity = stage(yard, ("t", b"1"), ("t", b"2"), ("t", b"3"))
    driver = yard.commit(identity)
    for _ in range(5):
        yard.later(RETRY_NS)
        yard.write()
    assert yard.ready("t") == [b"old", b"old"] and driver.heard() == []
    yard.admin.say(1, m.QueuePurge("t"))
    yard.later(RETRY_NS)
    yard.write()
    assert answer(driver)["messages"] == 3
    assert yard.ready("t") == [b"1", b"2", b"3"], "a commit is not divided"


def test_a_queue_that_is_deleted_meanwhile_takes_its_share_with_it() -> None:
    yard = CommitBed()
    identity = stage(yard, ("a", b"1"), ("b", b"2"))
    driver = yard.commit(identity)
    yard.admin.call(1, m.QueueDelete("b"), m.QueueDeleteOk)
    yard.write()
    assert answer(driver)["committed"] is True
    assert yard.ready("a") == [b"1"]
    yard.settle()


def test_a_driver_that_died_is_no_hindrance_for_the_next_one() -> None:
    """Its commit is carried out; the next driver's of the same batch finds it done."""
    yard = CommitBed()
    yard.commit(stage(yard, ("a", b"1"))).hang_up()
    second = yard.commit(stage(yard, ("a", b"1")))
    yard.write()
    assert answer(second)["already"] is True
    assert yard.ready("a") == [b"1"]
    assert yard.broker.transactions.stages == {}


def test_a_channel_that_stages_has_no_other_transaction() -> None:
    for said in (m.ConfirmSelect(), m.TxCommit(), m.TxRollback()):
        yard = CommitBed()
        peer = yard.connect("task")
        ask(peer, "begin", app="q", batch=0)
        peer.say(1, said)
        assert closed(peer)[0] == 406
    peer = yard.connect("confirming")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    assert refusal(peer, "begin", app="q", batch=0)[0] == 406


def test_rules_of_queues_apply_to_what_is_committed() -> None:
    """A duplicate is dropped, in memory and in the log; drop-head drops the oldest."""
    yard = CommitBed()
    yard.declare("t", {"x-max-length": 2})
    identity = stage(yard, *(("t", str(n).encode()) for n in range(5)), ("a", b"kept"))
    yard.commit(identity)
    yard.write()
    assert yard.ready("t") == [b"3", b"4"]
    yard.later(1_100_000_000)
    yard.write()
    assert yard.store.log.live_count(yard.store.log.queues[3]) == 2
    yard.settle()


def test_commits_behind_another_have_a_bound_and_those_that_nobody_hears_go() -> None:
    """A queue stays full, and drivers lose patience or do not."""
    yard = CommitBed()
    identity = stage(yard, ("a", b"x"))
    first = yard.commit(identity)
    for _ in range(TRANSACTION_WAITING.default * 2):
        yard.commit(identity).shell.hang_up()
    waiting = [yard.commit(identity) for _ in range(TRANSACTION_WAITING.default)]
    assert not any(peer.heard() for peer in waiting)
    code, text = closed(yard.commit(identity))
    assert (code, "16 commits of app 'q' wait" in text) == (406, True)
    yard.write()
    yard.later(RETRY_NS)
    yard.write()
    assert answer(first)["already"] is False
    assert all(answer(peer)["already"] is True for peer in waiting)
    assert yard.ready("a") == [b"x"]
