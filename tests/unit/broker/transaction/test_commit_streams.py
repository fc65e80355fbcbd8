"""Commits into streams: what is held, what is seen when, what becomes of a stream that goes."""

from penstock.broker.actors.lane import Answerable
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.transaction.commit_streams import REQUEST_MESSAGES, in_requests, offset_note
from penstock.broker.transaction.transaction_manager import RETRY_NS
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.server.disk.offline_store import names_of_own
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.check.offline import store_stats
from penstock.storage.layout.format import OUTBOX_QUEUE_ID
from penstock.storage.recovery.recovery import recover
from penstock.streams.handles import StreamHandles
from tests.unit.broker.commit_bed import PERSISTENT, SEGMENT_BYTES, CommitBed, ask, stage
from tests.unit.broker.peer import Bed, Peer, SeededChance, publish
from tests.unit.broker.stream.test_streams import given

STREAM: Table = {"x-queue-type": "stream"}


class Bank(CommitBed):
    """With a stream s, whose store is on the same disk."""

    def __init__(self) -> None:
        super().__init__()
        handles = StreamHandles(SimDisk())
        self.streams = self.broker.streams.open("/", handles, self.disk)
        self.declare("s", STREAM)

    @property
    def stream(self) -> StreamActor:
        actor = self.actor("s")
        assert isinstance(actor, StreamActor)
        return actor

    def in_outbox(self) -> int:
        """Messages in the log that the stream may not have."""
        index = self.store.log.queues.get(OUTBOX_QUEUE_ID + self.stream.queue_id)
        return 0 if index is None else int(index.live_count())

    def rows(self) -> list[bytes]:
        """Everything in the stream."""
        reader = self.connect(f"reader {self.broker.connection_count}")
        reader.call(1, m.BasicQos(0, 1000, False), m.BasicQosOk)
        reader.say(1, m.BasicConsume("s", "t", arguments={"x-stream-offset": "first"}))
        self.write()
        return given(reader)


def answers(peer: Peer) -> list[Table]:
    return [one.method.answer for one in peer.heard() if isinstance(one.method, m.RequestAskOk)]


def test_a_commit_is_in_queue_and_stream_and_answered_when_both_have_it() -> None:
    bank = Bank()
    identity = stage(bank, ("a", b"1"), ("s", b"2"), ("s", b"3"))
    bank.write()
    assert bank.rows() == [], "nobody sees what is staged"
    driver = bank.commit(identity)
    assert bank.disk.work() == 1
    bank.run()
    assert bank.ready("a") == [b"1"] and bank.in_outbox() == 3, "the group is safe"
    assert bank.rows() == [b"2", b"3"]
    assert answers(driver) == [{"committed": True, "already": False, "messages": 3}]
    assert bank.in_outbox() == 0
    again = bank.commit(stage(bank, ("s", b"2")))
    bank.write()
    assert answers(again) == [{"committed": True, "already": True, "messages": 0}]
    assert bank.rows() == [b"2", b"3"]
    bank.settle()


def test_tools_that_work_without_a_broker_keep_what_is_on_its_way() -> None:
    bank = Bank()
    bank.commit(stage(bank, ("s", b"2"), ("s", b"3")))
    assert bank.disk.work() == 1
    names = {1: "/a", 2: "/b", 3: "/s"}
    ids = {*names, *names_of_own(names)}
    recovered = recover(SimDisk(bank.files.contents()), SeededChance(2), SEGMENT_BYTES, ids)
    assert recovered.queues[OUTBOX_QUEUE_ID + 3].live_count() == 3
    assert recovered.report.queue_id_max == 0, "no queue has such a number"
    assert store_stats(recovered.log).messages == 0, "and none has those messages"


def test_publishers_wait_for_the_group_and_their_messages_follow_it() -> None:
    bank = Bank()
    writer = bank.connect("writer")
    writer.send(publish(1, "", "s", b"before"))
    driver = bank.commit(stage(bank, ("s", b"staged")))
    assert bank.stream.holder is not None, "what the stream has taken is not on the disk yet"
    writer.send(publish(1, "", "s", b"behind"))
    assert bank.disk.work() == 1
    bank.run()
    assert bank.in_outbox() == 0, "it waits for its next look"
    bank.later(RETRY_NS)
    assert bank.stream.holder is not None
    bank.write()
    assert bank.stream.holder is None and len(answers(driver)) == 1
    assert bank.rows() == [b"before", b"staged", b"behind"]
    bank.settle()


def test_what_a_publisher_that_goes_leaves_behind_comes_behind_the_commit() -> None:
    bank = Bank()
    writer = bank.connect("writer")
    writer.send(publish(1, "", "s", b"before"))
    bank.commit(stage(bank, ("s", b"staged")))
    writer.send(publish(1, "", "s", b"behind"))
    writer.hang_up()
    bank.run()
    bank.write()
    bank.later(RETRY_NS)
    assert bank.rows() == [b"before", b"staged", b"behind"]
    bank.settle()


def test_a_stream_is_held_by_one_commit_and_only_when_all_else_is_ready() -> None:
    bank = Bank()
    bank.declare("t", {"x-max-length": 1, "x-overflow": "backpressure"})
    bank.connect("writer").publish("t", b"0")
    bank.write()
    waiting = bank.commit(stage(bank, ("t", b"1"), ("s", b"2")))
    bank.later(3 * RETRY_NS)
    assert bank.stream.holder is None, "publishers to the stream do not wait for a full queue"
    other = bank.commit(stage(bank, ("s", b"3"), app="p"), app="p")
    bank.stream.hold(Answerable())
    last = bank.commit(stage(bank, ("s", b"4"), app="r"), app="r")
    bank.run()
    assert answers(last) == []
    holder = bank.stream.holder
    assert holder is not None
    bank.stream.let_go(holder)
    bank.write()
    bank.later(RETRY_NS)
    bank.write()
    assert len(answers(other)) == 1 and len(answers(last)) == 1 and answers(waiting) == []
    assert bank.rows() == [b"3", b"4"]


def test_a_stream_that_is_deleted_takes_its_share_along() -> None:
    for jobs in (0, 1):
        bank = Bank()
        driver = bank.commit(stage(bank, ("a", b"1"), ("s", b"2")))
        bank.run()
        bank.disk.work(jobs)
        bank.run()
        bank.admin.call(1, m.QueueDelete("s"), m.QueueDeleteOk)
        bank.write()
        assert len(answers(driver)) == 1 and bank.ready("a") == [b"1"]
        assert not any(number >= OUTBOX_QUEUE_ID + 1 and number < 1 << 62
                       for number in bank.store.log.queues)  # fmt: skip
        bank.settle()


def test_one_message_for_two_streams_and_a_queue() -> None:
    bank = Bank()
    bank.declare("t", STREAM)
    for name in ("a", "s", "t"):
        bank.admin.call(1, m.QueueBind(name, "amq.fanout"), m.QueueBindOk)
    peer = bank.connect("task")
    identity = ask(peer, "begin", app="q", batch=0, max_bytes=10_000)["id"]
    peer.send(publish(1, "amq.fanout", "", b"x", PERSISTENT))
    peer.call(1, m.RequestAsk("transaction.stage", {"id": identity}), m.RequestAskOk)
    driver = bank.commit(str(identity))
    bank.write()
    assert answers(driver) == [{"committed": True, "already": False, "messages": 3}]
    assert bank.ready("a") == [b"x"] and bank.rows() == [b"x"]
    assert bank.actor("t").messages.ready_count() == 1
    bank.settle()


def test_a_broker_that_keeps_nothing_commits_into_streams_as_well() -> None:
    bed = Bed()
    admin = bed.connect("admin")
    admin.call(1, m.QueueDeclare("s", durable=True, arguments=STREAM), m.QueueDeclareOk)
    driver = bed.connect("driver")
    table: Table = {"app": "q", "batch": 0, "ids": [stage(bed, ("s", b"1"), ("s", b"2"))]}
    driver.say(1, m.RequestAsk("transaction.commit", table))
    assert answers(driver) == [{"committed": True, "already": False, "messages": 2}]
    assert bed.actor("s").messages.ready_count() == 2
    bed.settle()


def test_what_is_on_its_way_is_reserved_first_and_then_owed_by_who_staged_it() -> None:
    bank = Bank()
    transactions = bank.broker.transactions
    task = bank.connect("task")
    identity = ask(task, "begin", app="q", batch=0, max_bytes=10_000)["id"]
    task.send(*(publish(1, "", "s", bytes(100), PERSISTENT) for _ in range(10)))
    ask(task, "stage", id=identity)
    bank.write()
    reserved = transactions.reserved_bytes
    assert reserved > 1000
    driver = bank.commit(str(identity))
    assert transactions.reserved_bytes == reserved, "while it goes into the log"
    bank.disk.work()
    bank.run()
    page = task.connection.account
    assert transactions.reserved_bytes == 0
    assert page.debt_messages == 10 and page.debt_bytes > 1000, "while it goes into the stream"
    assert driver.connection.account.owes_nothing()
    bank.write()
    assert page.owes_nothing() and len(answers(driver)) == 1
    bank.settle()


def test_a_large_commit_goes_in_requests() -> None:
    note = offset_note(7, 2)
    assert note.body() == b"7 2"
    sizes = [len(run) for run, _ in in_requests([note] * (REQUEST_MESSAGES + 5))]
    assert sizes == [REQUEST_MESSAGES, 5]
    assert sum(size for _, size in in_requests([note] * 9)) == 9 * len(note.raw)
    assert list(in_requests([])) == []
