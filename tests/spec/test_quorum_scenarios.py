"""Scenarios 77-83 of flow-semantics 19: the soft limit of quorum queues, on real actors.

The leader that is parked is a disk driven by hand: a publish is applied when it has been written.
Of 79 there is the form in which nobody gets through, in every profile: here a settle is no command
that could cross the limit (flow/pending). Of 80 there is that in which what answers is away and
comes back, as a majority may; where the leader dies its connections end, and clients send again
(tests/cluster).
"""

import pytest

from penstock.base.limits import DEAD_LETTER_WINDOW
from penstock.flow.pending import RABBITMQ_LIMIT, Commands
from penstock.flow.profile import PENSTOCK, RABBITMQ_4
from penstock.protocol import methods as m
from penstock.simulation.laws.ledger_checks import LedgerLaws
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from tests.unit.broker.peer import Bed, Peer, publish

NS_PER_S = 1_000_000_000
BOTH = pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_4.name])
STORE = "store:/"


class QuorumBed(Bed):
    """A broker with the quorum queue `q` and a classic one, `c`. disk: applies publishes."""

    def __init__(self, profile: str, limit: int = RABBITMQ_LIMIT) -> None:
        super().__init__(profile=profile, quorum_commands_soft_limit=str(limit))
        self.disk = HandDisk()
        give_store(self.broker, self.disk, SimDisk(), 1 << 20)
        admin = self.connect("admin")
        admin.call(1, m.QueueDeclare("c"), m.QueueDeclareOk)
        quorum = m.QueueDeclare("q", durable=True, arguments={"x-queue-type": "quorum"})
        admin.call(1, quorum, m.QueueDeclareOk)
        self.law = LedgerLaws(self.broker)
        self.write()

    def publisher(self, name: str = "publisher", confirms: bool = True) -> Peer:
        peer = self.connect(name)
        if confirms:
            peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        return peer

    def write(self, *peers: Peer) -> None:
        """Everything there is, and what `peers` have not been able to say yet."""
        self.run()
        while self.disk.work():
            for peer in peers:
                peer.read_on()
            self.run()

    def count(self, name: str) -> int:
        """How many messages are ready."""
        return len(self.actor(name).messages.ready_messages())

    def apply(self) -> None:
        """One batch of the disk."""
        assert self.disk.work() == 1
        self.run()

    def send(self, peer: Peer, count: int, queue: str = "q") -> None:
        peer.send(*(publish(1, "", queue, b"body") for _ in range(count)))
        self.run()

    def commands(self, name: str = "publisher") -> Commands:
        """Of the channel of `name` at the quorum queue."""
        (found,) = [
            lane.commands
            for lane in self.actor("q").lanes
            if lane.commands is not None and lane.sender == f"chan:{name}/1"
        ]
        return found

    def pending(self, peer: Peer) -> int:
        return int(self.lane(peer).pending())

    def lane(self, peer: Peer) -> Commands:
        connection = peer.connection.identity.removeprefix("conn:")
        return self.commands(connection)

    def is_held(self, peer: Peer) -> bool:
        return (STORE, "pending") in self.lane(peer).hop.sender_gate.reasons


def acked(peer: Peer) -> int:
    """Publishes that are confirmed by what it has heard since it was asked last."""
    tags = [one.method for one in peer.heard() if isinstance(one.method, m.BasicAck)]
    return max((tag.delivery_tag for tag in tags), default=0)


@BOTH
def test_scenario_77_the_33rd_holds_and_31_let_go(profile: str) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher()
    bed.send(peer, 2)
    bed.send(peer, 30)
    assert (bed.pending(peer), bed.is_held(peer)) == (32, False)
    bed.send(peer, 1)
    assert (bed.pending(peer), bed.is_held(peer)) == (33, True)
    bed.apply()
    assert (bed.pending(peer), bed.is_held(peer)) == (31, False)
    bed.write()
    assert bed.pending(peer) == 0
    bed.settle()


@BOTH
def test_scenario_77_32_still_hold(profile: str) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher()
    bed.send(peer, 1)
    bed.send(peer, 32)
    assert bed.is_held(peer)
    bed.apply()
    assert (bed.pending(peer), bed.is_held(peer)) == (32, True)
    bed.apply()
    assert (bed.pending(peer), bed.is_held(peer)) == (0, False)
    bed.settle()


@BOTH
def test_scenario_78_acks_wait_for_nothing_and_are_all_settled(profile: str) -> None:
    bed = QuorumBed(profile)
    peer, reader = bed.publisher(), bed.connect("reader")
    for _ in range(2):
        bed.send(peer, 25)
        bed.write()
    reader.say(1, m.BasicConsume("q", "c"))
    assert len([one for one in reader.heard() if isinstance(one.method, m.BasicDeliver)]) == 50
    bed.send(peer, 1)
    bed.send(peer, 32)
    assert bed.is_held(peer)
    jobs = len(bed.disk.jobs)
    reader.say(1, m.BasicAck(50, multiple=True))
    assert len(bed.disk.jobs) == jobs, "they go with the next batch"
    assert bed.actor("q").unacked_count == 0, "what came meanwhile is not applied"
    bed.write()
    assert bed.actor("q").unacked_count == 33
    assert not bed.is_held(peer)
    bed.settle()


@BOTH
def test_scenario_79_no_hole(profile: str) -> None:
    """[N] 31 publishes and 2 settles, and then one too many is held."""
    bed = QuorumBed(profile)
    peer, reader = bed.publisher(), bed.connect("reader")
    bed.send(peer, 2)
    bed.write()
    reader.say(1, m.BasicConsume("q", "c"))
    bed.send(peer, 31)
    reader.say(1, m.BasicAck(1), m.BasicAck(2))
    bed.send(peer, 2)
    assert bed.is_held(peer)
    bed.send(peer, 1000)
    most = 33 if profile == PENSTOCK.name else 33 + 400
    assert bed.pending(peer) <= most, "and those behind it do not get through"


@BOTH
def test_scenario_82_another_queue_that_is_answered_lets_nobody_past(profile: str) -> None:
    """Both queues wait for one store, and the channel for both of them."""
    bed = QuorumBed(profile, 4)
    quorum = m.QueueDeclare("r", durable=True, arguments={"x-queue-type": "quorum"})
    bed.connect("maker").call(1, quorum, m.QueueDeclareOk)
    bed.write()
    peer = bed.publisher()
    bed.send(peer, 6, "r")
    bed.send(peer, 1)
    bed.send(peer, 40)
    held = bed.pending(peer)
    bed.apply()
    assert bed.is_held(peer), "the answer was for r"
    bed.send(peer, 2000)
    assert bed.pending(peer) <= held + (0 if profile == PENSTOCK.name else 2 * 400)
    bed.write(peer)
    bed.write(peer)
    assert not bed.is_held(peer) and bed.pending(peer) == 0
    bed.settle()


@BOTH
def test_scenario_80_nobody_answers_for_half_a_minute(profile: str) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher()
    bodies = [b"%d" % number for number in range(33)]
    peer.publish("q", *bodies)
    for _ in range(30):
        bed.later(NS_PER_S)
    assert bed.is_held(peer) and acked(peer) == 0
    bed.write()
    assert not bed.is_held(peer)
    assert peer.confirmed() == dict.fromkeys(range(1, 34), "ack")
    ready = bed.actor("q").messages.ready_messages()
    assert [message.body() for message in ready] == bodies, "in order, each once"
    bed.settle()


@BOTH
@pytest.mark.parametrize("confirms", [True, False])
def test_scenario_81_delete_while_held(profile: str, confirms: bool) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher(confirms=confirms)
    bed.send(peer, 1)
    bed.send(peer, 32)
    commands = bed.lane(peer)
    assert bed.is_held(peer)
    bed.connect("admin").call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    gate = commands.hop.sender_gate
    assert gate.is_open
    bed.write()
    if confirms:
        assert acked(peer) == 33
    assert commands.pending() == 0
    bed.settle()


@BOTH
def test_a_channel_that_ends_while_it_is_held_leaves_nothing(profile: str) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher()
    bed.send(peer, 1)
    bed.send(peer, 40)
    commands = bed.lane(peer)
    assert bed.is_held(peer)
    peer.call(1, m.ChannelClose(200, "over", 0, 0), m.ChannelCloseOk)
    assert commands.hop.sender_gate.is_open
    bed.write()
    assert commands.pending() == 0
    assert bed.count("q") == 41, "what it had sent is in the queue"
    bed.law.check_step()
    bed.settle()


@pytest.mark.parametrize("profile, most", [(RABBITMQ_4.name, 33 + 400 + 1), (PENSTOCK.name, 33)])
def test_scenario_82_overshoot(profile: str, most: int) -> None:
    """[R]: what the reader has credit for goes on its way. [N]: it is parked beside the channel."""
    bed = QuorumBed(profile)
    peer = bed.publisher()
    for _ in range(100):
        bed.send(peer, 20)
    assert bed.is_held(peer)
    assert 33 <= bed.pending(peer) <= most
    bed.write(peer)
    assert acked(peer) == 2000, "and all of it arrives"
    bed.settle()


@BOTH
def test_others_go_on_beside_a_queue_that_applies_nothing(profile: str) -> None:
    """In [N] also what the same channel publishes to another queue; in [R] other connections."""
    bed = QuorumBed(profile)
    peer = bed.publisher()
    bed.send(peer, 1)
    bed.send(peer, 1000)
    assert bed.is_held(peer)
    other = bed.publisher("other") if profile == RABBITMQ_4.name else peer
    for _ in range(20):
        bed.send(other, 10, "c")
    assert bed.count("c") == 200


@BOTH
def test_scenario_83_who_limits_himself_is_never_held(profile: str) -> None:
    bed = QuorumBed(profile)
    peer = bed.publisher()
    done = 0
    bed.send(peer, 20)
    while done < 400:
        bed.apply()
        now = acked(peer)
        assert bed.pending(peer) <= 20
        if now > done:
            bed.send(peer, now - done)
            done = now
        bed.run()
    assert bed.lane(peer).hop.sender_gate.held_ns == 0


@BOTH
def test_200_publishers_on_quorum_queues_have_no_more_than_their_limit(profile: str) -> None:
    """S3's weakness of 3.8.3: the leader's memory grew with its publishers."""
    bed = QuorumBed(profile)
    peers = [bed.publisher(f"p{number}", confirms=False) for number in range(200)]
    for peer in peers:
        bed.send(peer, 500)
    most = 33 if profile == PENSTOCK.name else 33 + 400
    assert max(bed.pending(peer) for peer in peers) <= most
    bed.write(*peers)
    assert bed.count("q") == 200 * 500
    bed.settle()


def test_without_a_limit_nobody_is_held() -> None:
    bed = QuorumBed(PENSTOCK.name, limit=0)
    peer = bed.publisher()
    bed.send(peer, 1)
    bed.send(peer, 300)
    assert bed.pending(peer) == 301
    assert not bed.is_held(peer)
    bed.write()
    bed.settle()


# -- transactions ------------------------------------------------------------------------------


def transactional(bed: QuorumBed) -> Peer:
    peer = bed.connect("publisher")
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    return peer


def commit(bed: QuorumBed, peer: Peer, count: int, queue: str = "q") -> None:
    """`count` publishes and tx.commit, whose answer is not waited for."""
    bed.send(peer, count, queue)
    peer.say(1, m.TxCommit())


def commits(peer: Peer) -> int:
    """Answers to tx.commit that it has heard since it was asked last."""
    return sum(isinstance(one.method, m.TxCommitOk) for one in peer.heard())


def test_what_a_transaction_commits_is_pending_and_the_next_commit_waits() -> None:
    """[N]: nothing of a transaction is parked, so its commit itself waits, and nothing else."""
    bed = QuorumBed(PENSTOCK.name)
    peer = transactional(bed)
    commit(bed, peer, 20)
    assert (bed.pending(peer), bed.is_held(peer)) == (20, False)
    commit(bed, peer, 20)
    assert (bed.pending(peer), bed.is_held(peer)) == (40, True), "a commit is not divided"
    channel = peer.connection.channels[1]
    for _ in range(50):
        commit(bed, peer, 20)
        assert bed.pending(peer) == 40
    assert channel.is_stalled and channel.stalled_by == (STORE, "pending")
    other = bed.publisher("other")
    bed.send(other, 10, "c")
    assert bed.count("c") == 10
    bed.law.check_step()
    bed.write(peer)
    assert commits(peer) == 52 and bed.count("q") == 52 * 20
    assert not channel.is_stalled
    bed.settle()


def test_a_hold_keeps_the_publishes_of_a_transactional_channel_back() -> None:
    """[R]: the channel keeps its grants back, and what its connection has credit for still comes,
    and is committed."""
    bed = QuorumBed(RABBITMQ_4.name)
    peer = transactional(bed)
    for _ in range(60):
        commit(bed, peer, 20)
    assert bed.is_held(peer)
    assert bed.pending(peer) <= 40 + 400
    bed.write(peer)
    assert commits(peer) == 60 and bed.count("q") == 60 * 20
    bed.settle()


def test_what_stands_behind_a_commit_that_waits_is_of_the_next_transaction() -> None:
    """Publishes and settles, also where the connection has stood still for long."""
    bed = QuorumBed(PENSTOCK.name)
    peer = transactional(bed)
    commit(bed, peer, 2, "c")
    peer.say(1, m.BasicConsume("c", "c"))
    commit(bed, peer, 33)
    peer.heard()
    commit(bed, peer, 1)
    peer.say(1, m.BasicAck(1))
    bed.send(peer, 5)
    peer.connection.channels[1].force_now()
    assert bed.pending(peer) == 33 and bed.actor("c").unacked_count == 2
    peer.say(1, m.TxRollback())
    bed.write(peer)
    assert commits(peer) == 2
    assert bed.count("q") == 34
    assert bed.actor("c").unacked_count == 2, "what was rolled back is not acknowledged"
    bed.settle()


@pytest.mark.parametrize("how", ["close the channel", "close the connection", "hang up"])
def test_an_end_does_not_wait_behind_a_commit(how: str) -> None:
    """What was asked for is done first, unless the client is not there any more to hear of it."""
    bed = QuorumBed(PENSTOCK.name)
    peer = transactional(bed)
    for _ in range(3):
        commit(bed, peer, 33)
    assert bed.pending(peer) == 33
    if how == "close the channel":
        peer.say(1, m.ChannelClose(200, "over", 0, 0))
        assert isinstance(peer.heard()[-1].method, m.ChannelCloseOk)
    elif how == "close the connection":
        peer.say(0, m.ConnectionClose(200, "over", 0, 0))
        assert isinstance(peer.heard()[-1].method, m.ConnectionCloseOk)
    else:
        peer.hang_up()
    bed.write()
    assert bed.count("q") == (33 if how == "hang up" else 99)
    bed.settle()


def test_no_more_is_read_behind_a_commit_than_behind_a_get() -> None:
    bed = QuorumBed(PENSTOCK.name)
    peer = transactional(bed)
    commit(bed, peer, 33)
    for _ in range(3000):
        peer.say(1, m.TxCommit())
    assert len(peer.connection.channels[1].inbox.methods) < 3000
    assert not peer.connection.can_receive()
    bed.write(peer)
    assert commits(peer) == 3001 and peer.unread == b""
    bed.settle()


def test_a_queue_that_goes_lets_the_commit_go() -> None:
    bed = QuorumBed(PENSTOCK.name)
    peer = transactional(bed)
    commit(bed, peer, 33)
    commit(bed, peer, 1, "c")
    assert bed.count("c") == 0, "one hop is enough"
    bed.connect("admin").call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.run()
    assert bed.count("c") == 1
    bed.write(peer)
    assert commits(peer) == 2
    bed.settle()


# -- dead letters ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_letters_on_their_way_to_a_quorum_queue_have_their_own_window(strategy: str) -> None:
    """32 of one queue, until they are safe where they go: the soft limit would say the same."""
    bed = QuorumBed(PENSTOCK.name)
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "q",
        "x-dead-letter-strategy": strategy,
        "x-overflow": "reject-publish",
    }
    admin = bed.connect("admin")
    admin.call(1, m.QueueDeclare("dying", arguments=arguments), m.QueueDeclareOk)  # type: ignore[arg-type]
    bed.send(admin, 100, "dying")
    admin.say(1, m.BasicConsume("dying", "c"))
    admin.say(1, m.BasicNack(0, multiple=True, requeue=False))
    assert bed.actor("q").uncommitted_count() == DEAD_LETTER_WINDOW.default == RABBITMQ_LIMIT
    assert all(lane.commands is None for lane in bed.actor("q").lanes)
    bed.law.check_step()
    bed.write()
    assert bed.count("q") == 100
    bed.settle()
