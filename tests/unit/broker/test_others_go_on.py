"""Whatever is done to very many messages in one go, a ping-pong client beside it goes on: how often
its message comes back meanwhile, on a clock that gives every turn to one actor."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.base.errors import ChannelFault
from penstock.broker.channel.channel import SETTLE_COST
from penstock.broker.channel.settling import SETTLED_AT_ONCE
from penstock.broker.queue.classic_actor import FORGOTTEN_AT_ONCE, Forgetting
from penstock.broker.session.piecewise import PIECE as PUBLISHED_AT_ONCE
from penstock.broker.transaction.commit import PIECE
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from penstock.queues.deduplication import KeysBefore
from penstock.queues.queue import Purged
from penstock.simulation.laws.ledger_checks import LedgerLaws
from tests.unit.broker.commit_bed import PERSISTENT, CommitBed, answer, ask, closed, refusal
from tests.unit.broker.peer import TickingClock, headers_property, publish

MANY = 8 * SETTLED_AT_ONCE
TURNS = 4
"""Of the victim's message, from its bytes to its return, at most."""
PING = publish(1, "", "ping", b"ping")


class Yard(CommitBed):
    """victim: sends messages to itself; worker: has a large piece of work done."""

    segment_bytes = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.broker.scheduler.turn_messages = SETTLE_COST
        self.victim = self.connect("victim")
        self.victim.call(1, m.QueueDeclare("ping"), m.QueueDeclareOk)
        self.victim.say(1, m.BasicConsume("ping", "p", no_ack=True))
        self.victim.heard()
        self.worker = self.connect("worker")
        self.law = LedgerLaws(self.broker)

    def fill(self, queue: str = "a") -> None:
        for _ in range(MANY // 512):
            self.worker.send(*(publish(1, "", queue, b"x", PERSISTENT) for _ in range(512)))
        self.write()

    def pings(self, is_over: Callable[[], bool]) -> int:
        """How often the victim's message comes back before it is over; at once, without a turn for
        anybody, it is not."""
        scheduler = self.broker.scheduler
        scheduler.clock = TickingClock()
        assert not is_over()
        self.victim.connection.receive(PING)
        count = 0
        for _ in range(100_000):
            scheduler.run(1)
            self.disk.work()
            if any(isinstance(one.method, m.BasicDeliver) for one in self.victim.heard()):
                count += 1
                self.victim.connection.receive(PING)
            if is_over():
                return count
        raise AssertionError("it does not end")

    def step_until(self, is_so: Callable[[], bool]) -> None:
        """One turn for one actor, and again."""
        scheduler = self.broker.scheduler
        scheduler.clock = TickingClock()
        for _ in range(10_000):
            if is_so():
                return
            scheduler.run(1)
        raise AssertionError("it does not come to that")

    def begin(self, *said: m.Method) -> None:
        """The worker's methods arrive, and nobody has had a turn since."""
        self.worker.connection.receive(b"".join(method_frame(1, one) for one in said))

    def has_heard(self, kind: type[m.Method]) -> bool:
        return any(isinstance(one.method, kind) for one in self.worker.heard())

    def check(self) -> None:
        """The books are right between two turns; not between all, because that takes long."""
        self.looks += 1
        if self.looks % 13 == 0:
            self.law.check_step()

    def is_forgotten(self) -> bool:
        self.check()
        return not any(isinstance(one, Forgetting) for one in self.broker.cleanup.errands)


def request(verb: str, **arguments: object) -> m.RequestAsk:
    return m.RequestAsk(f"transaction.{verb}", arguments)  # type: ignore[arg-type]  # AMQP's values


def opened(yard: Yard, batch: int = 0) -> str:
    """The worker has published MANY messages into a transaction; which."""
    begun = ask(yard.worker, "begin", app="q", batch=batch, max_bytes=1 << 24)["id"]
    for _ in range(MANY // 512):
        yard.worker.send(*(publish(1, "", "a", b"x", PERSISTENT) for _ in range(512)))
    assert isinstance(begun, str)
    return begun


def test_a_large_transaction_is_looked_through_in_pieces() -> None:
    yard = Yard()
    yard.begin(request("stage", id=opened(yard)))
    assert yard.pings(lambda: yard.has_heard(m.RequestAskOk)) >= MANY // PIECE // TURNS


def test_a_large_commit_is_done_in_pieces() -> None:
    """Routed, made entries, put into the batch, put into the queue."""
    yard = Yard()
    identity = opened(yard)
    ask(yard.worker, "stage", id=identity)
    yard.begin(request("commit", app="q", batch=0, ids=[identity]))
    assert yard.pings(lambda: yard.has_heard(m.RequestAskOk)) >= 4 * (MANY // PIECE) // TURNS
    yard.write()
    assert len(yard.ready("a")) == MANY == len(yard.found()["a"])
    yard.settle()


def test_a_large_rollback_is_done_in_pieces() -> None:
    yard = Yard()
    identity = opened(yard)
    ask(yard.worker, "stage", id=identity)
    yard.begin(request("rollback", app="q", batch=0))
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    assert yard.pings(lambda: not yard.broker.cleanup.errands) >= MANY // PIECE // TURNS


def test_what_is_rolled_back_keeps_its_room_until_the_last_of_it_is_forgotten() -> None:
    """Or many that begin, publish and roll back would have more in memory than all together may."""
    yard = Yard()
    identity = opened(yard)
    ask(yard.worker, "stage", id=identity)
    transactions = yard.broker.transactions
    reserved = transactions.reserved_bytes
    assert reserved >= MANY
    yard.begin(request("rollback", app="q", batch=0))
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    assert not transactions.stages
    steps = 0
    while yard.broker.cleanup.errands:
        assert transactions.reserved_bytes == reserved
        yard.broker.cleanup.turn(1)
        steps += 1
    assert steps >= MANY // PIECE - TURNS
    assert transactions.reserved_bytes == 0


def test_a_transaction_that_is_rolled_back_while_it_is_looked_through_is_over() -> None:
    yard = Yard()
    identity = opened(yard)
    yard.worker.connection.receive(method_frame(1, request("stage", id=identity)))
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    assert yard.broker.transactions.roll_back("/", "q", 0, None) == 1
    yard.run()
    code, text = closed(yard.worker)
    assert code == 404 and "rolled back" in text
    assert yard.broker.transactions.reserved_bytes == 0
    assert refusal(yard.connect("late"), "commit", app="q", batch=0, ids=[identity])[0] == 404


def test_others_publish_to_the_disk_while_a_commit_grows_in_the_batch() -> None:
    """Theirs joins behind the group, and everything is there after a start."""
    yard = Yard()
    identity = opened(yard)
    ask(yard.worker, "stage", id=identity)
    yard.begin(request("commit", app="q", batch=0, ids=[identity]))
    yard.step_until(lambda: yard.store.is_appending)
    yard.admin.connection.receive(publish(1, "", "b", b"beside", PERSISTENT))
    for _ in range(10):
        assert yard.store.is_appending and yard.store.batch is None, "the batch waits for all of it"
        yard.broker.scheduler.run(1)
    yard.write()
    found = yard.found()
    assert (len(found["a"]), found["b"]) == (MANY, [b"beside"])


def test_a_queue_that_goes_while_a_commit_grows_takes_its_share_with_it() -> None:
    yard = Yard()
    begun = ask(yard.worker, "begin", app="q", batch=0, max_bytes=1 << 24)["id"]
    for _ in range(MANY // 512):
        both = (publish(1, "", key, b"x", PERSISTENT) for key in ("a", "b") * 256)
        yard.worker.send(*both)
    ask(yard.worker, "stage", id=begun)
    yard.begin(request("commit", app="q", batch=0, ids=[begun]))
    yard.step_until(lambda: yard.store.is_appending)
    yard.broker.vhosts["/"].remove_queue(yard.actor("a"))
    yard.write()
    assert answer(yard.worker)["committed"] is True
    assert len(yard.ready("b")) == MANY // 2 == len(yard.found()["b"])
    yard.settle()


@pytest.mark.parametrize("queue", ["a", "in-memory", "levels"])
@pytest.mark.parametrize("end", [m.QueuePurge, m.QueueDelete])
def test_a_long_queue_is_forgotten_in_pieces(
    queue: str, end: Callable[[str], m.QueuePurge | m.QueueDelete]
) -> None:
    """What it had stays on its publisher's account until it is out of memory."""
    yard = Yard()
    arguments: Table = {"x-max-priority": 3} if queue == "levels" else {}
    if queue != "a":
        yard.admin.call(1, m.QueueDeclare(queue, arguments=arguments), m.QueueDeclareOk)
    yard.fill(queue)
    yard.admin.connection.receive(method_frame(1, end(queue)))
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    held = yard.worker.connection.account.stored_bytes
    assert held > 0
    assert yard.pings(yard.is_forgotten) >= MANY // FORGOTTEN_AT_ONCE // TURNS
    assert yard.worker.connection.account.stored_bytes == 0
    (said,) = [one.method for one in yard.admin.heard()]
    assert isinstance(said, m.QueuePurgeOk | m.QueueDeleteOk) and said.message_count == MANY
    yard.later(1_100_000_000)
    yard.write()
    assert end is m.QueueDelete or yard.found()["a"] == []


@pytest.mark.parametrize(
    "settle",
    [
        m.BasicAck(0, multiple=True),
        m.BasicAck(MANY, multiple=True),
        m.BasicNack(MANY, multiple=True, requeue=True),
        m.BasicNack(MANY, multiple=True, requeue=False),
        m.BasicRecover(requeue=True),
    ],
    ids=["ack", "ack-to", "requeue", "drop", "recover"],
)
def test_many_deliveries_are_settled_in_pieces(settle: m.Method) -> None:
    """What the client asks behind it is answered behind it."""
    yard = Yard()
    yard.fill()
    reader = yard.connect("reader")
    reader.say(1, m.BasicConsume("a", "t"))
    assert len(reader.heard()) == MANY + 1
    reader.call(1, m.BasicCancel("t"), m.BasicCancelOk)
    behind = method_frame(1, settle) + method_frame(1, m.QueueDeclare("a", passive=True))
    reader.connection.receive(behind)
    answers: list[m.Method] = []

    def is_over() -> bool:
        yard.check()
        answers.extend(one.method for one in reader.heard())
        return any(isinstance(one, m.QueueDeclareOk) for one in answers)

    assert yard.pings(is_over) >= MANY // SETTLED_AT_ONCE // TURNS
    came_back = isinstance(settle, m.BasicRecover) or (
        isinstance(settle, m.BasicNack) and settle.requeue
    )
    assert isinstance(answers[-1], m.QueueDeclareOk)
    assert answers[-1].message_count == (MANY if came_back else 0)
    yard.later(1_100_000_000)
    yard.write()
    assert len(yard.found()["a"]) == (MANY if came_back else 0)


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_client_that_goes_while_it_settles_has_settled(is_acknowledged: bool) -> None:
    yard = Yard()
    yard.fill()
    reader = yard.connect("reader")
    reader.say(1, m.BasicConsume("a", "t"))
    settle = m.BasicAck(0, True) if is_acknowledged else m.BasicNack(0, True, False)
    reader.connection.receive(method_frame(1, settle))
    channel = reader.connection.channels[1]
    yard.step_until(lambda: channel.settling is not None)
    # The socket is gone, and nobody has had a turn since.
    yard.broker.lost(reader.connection)
    assert len(yard.broker.cleanup.errands) == 1
    yard.run()
    assert channel.settling is None and yard.ready("a") == []
    yard.later(1_100_000_000)
    yard.write()
    assert yard.found()["a"] == []
    yard.settle()


@pytest.mark.parametrize("is_channel", [True, False])
def test_very_many_deliveries_of_a_channel_that_ends_go_back_in_pieces(is_channel: bool) -> None:
    """It is closed by its client, or by a fault."""
    yard = Yard()
    yard.fill()
    yard.worker.say(1, m.BasicConsume("a", "t"))
    yard.worker.heard()
    last = m.ChannelClose(200, "", 0, 0) if is_channel else m.BasicAck(1 << 40, False)
    yard.begin(last)
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    answers = [one.method for one in yard.worker.heard()]
    assert isinstance(answers[-1], m.ChannelCloseOk if is_channel else m.ChannelClose)

    def is_over() -> bool:
        yard.check()
        return not yard.broker.cleanup.errands

    assert yard.pings(is_over) >= MANY // SETTLED_AT_ONCE // TURNS
    assert len(yard.ready("a")) == MANY and yard.actor("a").unacked_count == 0


# -- a channel's own transaction -----------------------------------------------------------------


class Committer:
    """A client whose transaction publishes MANY messages to `a`, and settles MANY of `b`."""

    def __init__(self, yard: Yard) -> None:
        yard.fill("b")
        self.peer = yard.connect("committer")
        self.peer.say(1, m.TxSelect(), m.BasicConsume("b", "t"))
        assert len(self.peer.heard()) == MANY + 2
        for _ in range(MANY // 512):
            self.peer.send(*(publish(1, "", "a", b"x", PERSISTENT) for _ in range(512)))
        self.peer.say(1, m.BasicCancel("t"), m.BasicAck(MANY // 2, True))
        for tag in range(MANY // 2 + 1, MANY // 2 + 301):
            self.peer.say(1, m.BasicAck(tag, False))
        self.peer.say(1, m.BasicAck(MANY, True))
        self.peer.heard()

    def commit(self) -> None:
        """It commits, and the bytes of its next transaction are there as well."""
        behind = publish(1, "", "a", b"next", PERSISTENT) + method_frame(1, m.BasicGet("b"))
        self.peer.connection.receive(method_frame(1, m.TxCommit()) + behind)


def test_a_large_commit_of_a_channel_is_done_in_pieces() -> None:
    """What the client asks behind it is answered behind it."""
    yard = Yard()
    committer = Committer(yard)
    committer.commit()
    heard: list[m.Method] = []

    def is_over() -> bool:
        yard.check()
        heard.extend(one.method for one in committer.peer.heard())
        return len(heard) == 2

    pieces = MANY // PUBLISHED_AT_ONCE + MANY // SETTLED_AT_ONCE
    assert yard.pings(is_over) >= pieces // TURNS
    assert {type(one) for one in heard} == {m.TxCommitOk, m.BasicGetEmpty}
    assert yard.ready("a") == [b"x"] * MANY and yard.actor("b").unacked_count == 0
    yard.later(1_100_000_000)
    yard.write()
    assert len(yard.found()["a"]) == MANY and yard.found()["b"] == []
    yard.settle()


@pytest.mark.parametrize("end", ["lost", "close", "timeout", "fault"])
@pytest.mark.parametrize("is_settling", [False, True])
def test_a_commit_that_has_begun_is_not_divided(end: str, is_settling: bool) -> None:
    yard = Yard()
    committer = Committer(yard)
    connection = committer.peer.connection
    channel = connection.channels[1]
    a, b = yard.actor("a"), yard.actor("b")
    committer.commit()
    if is_settling:
        yard.step_until(lambda: 0 < b.unacked_count < MANY)
    else:
        yard.step_until(lambda: 0 < a.messages.ready_count() < MANY)
    if end == "lost":
        yard.broker.lost(connection)
    elif end == "close":
        connection.receive(method_frame(0, m.ConnectionClose(200, "", 0, 0)))
    elif end == "timeout":
        connection.verbs.close_channel(connection, channel, ChannelFault(406, "too late"))
    else:
        connection.receive(b"\x07" * 8)
    yard.run()
    assert yard.ready("a") == [b"x"] * MANY, "all of it, and nothing of the next one"
    assert yard.ready("b") == [] and b.unacked_count == 0
    yard.later(1_100_000_000)
    yard.write()
    assert len(yard.found()["a"]) == MANY and yard.found()["b"] == []
    yard.settle()


# -- keys ----------------------------------------------------------------------------------------


def rows_left(purged: Purged) -> int:
    """What rules kept of a queue that was given up, and nobody has looked at yet."""
    looked_at = purged.rows
    assert looked_at is None or isinstance(looked_at, KeysBefore)
    keys = 0 if looked_at is None else len(looked_at.keys) + len(looked_at.known)
    return keys + sum(len(table) for table in purged.tables)


@pytest.mark.parametrize("end", [m.QueuePurge, m.QueueDelete])
@pytest.mark.parametrize(
    ("arguments", "tables"),
    [({"x-message-deduplication": True}, 2), ({"x-last-value-key": "k"}, 1)],
    ids=["deduplication", "last values"],
)
def test_keys_of_a_long_queue_are_forgotten_in_pieces(
    arguments: Table, tables: int, end: Callable[[str], m.QueuePurge | m.QueueDelete]
) -> None:
    yard = Yard()
    yard.admin.call(1, m.QueueDeclare("keys", arguments=arguments), m.QueueDeclareOk)
    for number in range(MANY):
        headers: Table = {"x-deduplication-header": str(number), "k": str(number)}
        yard.worker.send(publish(1, "", "keys", b"x", headers_property(headers)))
    assert yard.actor("keys").messages.ready_count() == MANY
    yard.admin.connection.receive(method_frame(1, end("keys")))
    yard.step_until(lambda: len(yard.broker.cleanup.errands) > 0)
    (errand,) = yard.broker.cleanup.errands
    assert isinstance(errand, Forgetting)
    rows = [rows_left(errand.purged)]
    assert rows[0] == tables * MANY - FORGOTTEN_AT_ONCE
    while yard.broker.cleanup.errands:
        yard.broker.scheduler.run(1)
        rows.append(rows_left(errand.purged))
    assert max(before - after for before, after in pairwise(rows)) == FORGOTTEN_AT_ONCE
    assert rows[-1] == 0 and yard.worker.connection.account.stored_bytes == 0
    yard.settle()
