"""tx.commit-ok comes when everything published in the transaction is as safe as a confirm says."""

from penstock.client.events import ChannelClosed, ClientEvent, Replied
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT, Depot


class Listening(Hand):
    """Keeps everything that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[ClientEvent] = []

    def happened(self, event: ClientEvent) -> None:
        self.events.append(event)
        super().happened(event)


class Committing(Depot):
    """A transactional channel, and the disk at hand."""

    def __init__(self) -> None:
        super().__init__(PENSTOCK)
        self.hand = Listening()
        self.world.connect(self.hand)
        self.settle()
        self.say(m.TxSelect())

    def say(self, *methods: m.Method) -> None:
        for method in methods:
            self.hand.say(method)
        self.settle()

    def put(self, key: str, properties: Properties = PERSISTENT, count: int = 1) -> None:
        self.send(self.hand, key, 100, count, properties=properties)

    def commits(self) -> int:
        return sum(isinstance(one, m.TxCommitOk) for one in self.hand.replies)


def test_a_commit_waits_for_the_disk() -> None:
    depot = Committing()
    depot.put("d1", count=3)
    depot.put("d2")
    assert (depot.ready("d1"), depot.disk.jobs) == (0, [])
    depot.say(m.TxCommit())
    assert depot.ready("d1") == 3, "others see it at once"
    assert depot.commits() == 0
    depot.write()
    assert depot.commits() == 1


def test_what_is_not_kept_waits_for_nothing() -> None:
    depot = Committing()
    depot.say(m.TxCommit())
    assert depot.commits() == 1, "an empty one"
    depot.put("q1")
    depot.put("d1", TRANSIENT)
    depot.say(m.TxCommit())
    assert (depot.commits(), depot.disk.jobs) == (2, [])
    depot.put("nowhere")
    depot.say(m.TxCommit())
    assert depot.commits() == 3


def test_each_commit_waits_for_its_own_and_those_before_it() -> None:
    depot = Committing()
    depot.put("d1")
    depot.say(m.TxCommit())
    depot.put("d1")
    depot.say(m.TxCommit())
    depot.put("q1")
    depot.say(m.TxCommit())
    assert depot.commits() == 0, "the last one waits behind them"
    depot.disk.work()
    depot.settle()
    assert depot.commits() == 1
    depot.disk.work()
    depot.settle()
    assert depot.commits() == 3
    depot.put("d1")
    depot.say(m.TxRollback(), m.TxCommit())
    assert depot.commits() == 4
    assert depot.ready("d1") == 2


def test_no_confirms_are_written() -> None:
    depot = Committing()
    depot.hand.events.clear()
    depot.put("d1", count=5)
    depot.say(m.TxCommit())
    depot.write()
    assert [type(one) for one in depot.hand.events] == [Replied]


def test_a_commit_of_which_a_part_is_refused_closes_the_channel() -> None:
    """As RabbitMQ does: 406, partial tx completion."""
    depot = Committing()
    depot.put("q2")
    depot.say(m.TxCommit())
    assert depot.commits() == 1
    channel = depot.channel(depot.hand)
    depot.put("d1")
    depot.put("q1", TRANSIENT)
    depot.say(m.TxCommit())
    publisher = channel.publisher
    assert publisher is not None and publisher.confirms is not None
    publisher.confirms.refuse(2)
    publisher.must_answer()
    depot.write()
    assert channel.is_closed
    assert depot.commits() == 1


def test_a_channel_that_closes_with_a_commit_under_way() -> None:
    depot = Committing()
    depot.put("d1")
    depot.say(m.TxCommit(), m.ChannelClose(200, "", 0, 0))
    depot.write()
    assert depot.ready("d1") == 1
    assert depot.broker.node_account.total_messages() == 0, "nothing is owed for it"


def test_a_full_queue_refuses_a_part_of_the_commit() -> None:
    """With `reject-publish`: what the other queue took stays, the client hears of the rest."""
    depot = Committing()
    limited: Table = {"x-max-length": 2, "x-overflow": "reject-publish"}
    depot.connect()[0].say(m.QueueDeclare("small", arguments=limited))
    depot.settle()
    channel = depot.channel(depot.hand)
    depot.put("small", count=2)
    depot.say(m.TxCommit())
    assert depot.commits() == 1
    depot.put("d1")
    depot.put("small")
    depot.say(m.TxCommit())
    depot.write()
    assert depot.commits() == 1
    assert channel.is_closed
    closed = [one for one in depot.hand.events if isinstance(one, ChannelClosed)]
    assert [(one.code, one.text) for one in closed] == [
        (406, "PRECONDITION_FAILED - partial tx completion")
    ]
    assert (depot.ready("d1"), depot.ready("small")) == (1, 2)
