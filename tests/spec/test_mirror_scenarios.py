"""Scenarios 46 and 47 of flow-semantics 19: mirrored queues, on real actors.

The broker leads a cluster whose member is the test: it says how many of the broker's entries each
mirror has on its disk, who is in sync, and who is online. A mirror that is parked has no more. With
real nodes the same is in tests/cluster/test_mirrors.py.
"""

import pytest

from penstock.base.policy import Policy
from penstock.broker.store.mirrors import MemberLink, MirrorNode
from penstock.flow.hop import HELD_MIRROR
from penstock.flow.profile import PENSTOCK, RABBITMQ_35
from penstock.protocol import methods as m
from penstock.simulation.laws.ledger_checks import LedgerLaws
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from tests.unit.broker.peer import Bed, Peer, publish

COST = 2
"""Credits of a message for each mirror."""


class ClusterDisk(HandDisk):
    """Every job is an entry of the cluster's log, in their order."""

    def needs(self) -> int:
        return self.ran


class Said(MemberLink):
    """What the broker has told the member."""

    def __init__(self) -> None:
        self.words: list[bool] = []

    def mirrored(self, is_mirrored: bool) -> None:
        self.words.append(is_mirrored)


class MirrorBed(Bed):
    """Node `a` leads, `b` and `c` have copies. The durable queue `q` is mirrored as `ha` says,
    `plain` is not. have: entries on the disk of each mirror."""

    def __init__(self, profile: str, ha: dict[str, object] | None = None) -> None:
        super().__init__(profile=profile)
        self.disk = ClusterDisk()
        mirrors = self.broker.context.mirrors
        mirrors.own = "a"
        self.member = mirrors.member = Said()
        self.have = {"b": 0, "c": 0}
        self.in_sync = {"b", "c"}
        self.online = {"b", "c"}
        give_store(self.broker, self.disk, SimDisk(), 1 << 20)
        self.policy = Policy("/", "ha", "^q", ha or {"ha-mode": "all"})
        self.broker.policy_manager.set(self.policy, False)
        admin = self.connect("admin")
        admin.call(1, m.QueueDeclare("plain", durable=True), m.QueueDeclareOk)
        admin.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
        self.law = LedgerLaws(self.broker)
        self.write()
        self.catch_up()

    def publisher(self, name: str = "publisher") -> Peer:
        peer = self.connect(name)
        peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        return peer

    def write(self) -> None:
        """Everything is on the leader's disk, and on that of a majority."""
        self.run()
        while self.disk.work():
            self.run()

    def say(self) -> None:
        """The member says how the nodes are."""
        nodes = [
            MirrorNode(name, count, name in self.in_sync, name in self.online)
            for name, count in self.have.items()
        ]
        self.broker.context.mirrors.update(nodes, True, "")
        self.run()

    def catch_up(self, *names: str) -> None:
        """Mirrors have everything; all for none."""
        for name in names or tuple(self.have):
            self.have[name] = self.disk.ran
        self.say()

    def send(self, peer: Peer, count: int, queue: str = "q") -> None:
        peer.send(*(publish(1, "", queue, b"body") for _ in range(count)))
        self.run()

    def taken(self, queue: str = "q") -> int:
        """Messages that have got into the queue."""
        return len(self.actor(queue).messages.ready_messages())


def acked(peer: Peer) -> int:
    """Publishes that are confirmed by what it has heard since it was asked last."""
    tags = [one.method for one in peer.heard() if isinstance(one.method, m.BasicAck)]
    return max((tag.delivery_tag for tag in tags), default=0)


def holds(bed: MirrorBed) -> int:
    """The rules by which the publisher's hop to `q` is closed."""
    return int(bed.actor("q").lanes[0].held)


def each(bed: MirrorBed, peer: Peer, count: int) -> list[int]:
    """Publish one by one, each an entry of its own; their numbers."""
    numbers = []
    for _ in range(count):
        bed.send(peer, 1)
        bed.write()
        numbers.append(bed.disk.ran)
    return numbers


def test_scenario_46_a_parked_mirror_holds_its_queue_until_it_is_left_out() -> None:
    bed = MirrorBed(PENSTOCK.name)
    mirrored, plain = bed.publisher(), bed.publisher("plain")
    told: list[tuple[str, str]] = []
    bed.broker.alarm_manager.tell = lambda title, text: told.append((title, text))
    bed.send(mirrored, 10)
    bed.send(plain, 10, "plain")
    bed.write()
    bed.catch_up("c")
    assert (acked(mirrored), acked(plain)) == (0, 10), "node b has none of them"
    # The window to the store is what it may hold; the rest waits beside its connection.
    for _ in range(50):
        bed.send(mirrored, 100)
        bed.write()
    window = PENSTOCK.queue_store.initial + PENSTOCK.channel_queue.initial
    assert bed.taken() <= window
    bed.send(plain, 10, "plain")
    bed.write()
    assert acked(plain) == 20, "nobody else is held"
    assert not told
    bed.in_sync.remove("b")
    bed.catch_up("c")
    assert [title for title, _ in told] == ["mirror out of sync"]
    assert "node 'b' is in sync no more" in told[0][1]
    for _ in range(20):
        bed.write()
        bed.catch_up("c")
    assert (acked(mirrored), bed.taken()) == (5010, 5010)
    bed.settle()


def test_scenario_46_as_rabbitmq_until_it_is_declared_dead() -> None:
    bed = MirrorBed(RABBITMQ_35.name)
    peer = bed.publisher()
    initial, more_after = RABBITMQ_35.credit_initial, RABBITMQ_35.credit_more_after
    half = initial // COST
    numbers = each(bed, peer, half - 1)
    assert holds(bed) == 0
    numbers += each(bed, peer, 1)
    assert holds(bed) == HELD_MIRROR, "each message costs two credits"
    bed.catch_up("c")
    assert (acked(peer), holds(bed)) == (0, HELD_MIRROR)
    few = more_after // COST
    bed.have["b"] = numbers[few - 2]
    bed.say()
    assert (acked(peer), holds(bed)) == (few - 1, HELD_MIRROR), "no grant is due yet"
    bed.have["b"] = numbers[few - 1]
    bed.say()
    assert (acked(peer), holds(bed)) == (few, 0)
    # A channel still hands over what its reader had sent: a window of it, as in scenario 21.
    bed.send(peer, 1000)
    for _ in range(3):
        bed.write()
        peer.read_on()
    window = RABBITMQ_35.connection_channel.initial
    assert half <= bed.taken() <= half + few + window + 1
    bed.in_sync.remove("b")
    bed.catch_up("c")
    assert holds(bed) == HELD_MIRROR, "it is still online"
    bed.online.remove("b")
    bed.say()
    while bed.taken() < half + 1000:
        peer.read_on()
        bed.write()
        bed.catch_up("c")
    bed.write()
    bed.catch_up("c")
    assert (acked(peer), holds(bed)) == (half + 1000, 0)
    bed.settle()


@pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_35.name])
def test_scenario_47_while_a_new_mirror_is_copied(profile: str) -> None:
    """A copy is of the directory, so it has no batches of messages; who waits for it is the same.

    [R] publishers wait until it is there; [N] they go on, at what the copy leaves of the disk."""
    bed = MirrorBed(profile)
    bed.have["d"] = 0
    bed.online.add("d")
    bed.say()
    peer = bed.publisher()
    bed.send(peer, 10)
    bed.write()
    bed.catch_up("b", "c")
    waits = profile == RABBITMQ_35.name
    assert acked(peer) == (0 if waits else 10)
    bed.in_sync.add("d")
    bed.catch_up()
    assert acked(peer) == (10 if waits else 0)
    bed.send(peer, 10)
    bed.write()
    bed.catch_up("b", "c")
    assert acked(peer) == 0, "it is a mirror like the others now"
    bed.catch_up()
    assert acked(peer) == 20
    bed.settle()


@pytest.mark.parametrize(
    ("ha", "needed"),
    [
        ({"ha-mode": "all"}, {"b", "c"}),
        ({"ha-mode": "nodes", "ha-params": ["rabbit@a", "rabbit@c"]}, {"c"}),
        ({"ha-mode": "nodes", "ha-params": ["elsewhere"]}, set()),
        ({"ha-mode": "exactly", "ha-params": 1}, set()),
        ({"ha-mode": "exactly", "ha-params": 9}, {"b", "c"}),
    ],
)
def test_who_is_waited_for_is_who_the_policy_says(ha: dict[str, object], needed: set[str]) -> None:
    bed = MirrorBed(PENSTOCK.name, ha)
    peer = bed.publisher()
    bed.send(peer, 5)
    bed.write()
    confirmed = 0
    for name in sorted(needed):
        assert acked(peer) == 0, f"before node {name} has it"
        bed.catch_up(name)
    confirmed = acked(peer)
    assert confirmed == 5
    bed.settle()


def test_two_copies_are_on_one_other_node_always_the_same() -> None:
    chosen = set()
    for _ in range(2):
        bed = MirrorBed(PENSTOCK.name, {"ha-mode": "exactly", "ha-params": 2})
        peer = bed.publisher()
        bed.send(peer, 5)
        bed.write()
        for name in ("b", "c"):
            if acked(peer) == 0:
                bed.catch_up(name)
                last = name
        chosen.add(last)
        bed.catch_up()
        assert not bed.broker.stores.stores["/"].behind
        bed.settle()
    assert len(chosen) == 1


def test_nothing_is_confirmed_before_the_member_has_said_how_mirrors_are() -> None:
    bed = MirrorBed(PENSTOCK.name)
    bed.broker.context.mirrors.is_told = False
    peer = bed.publisher()
    bed.send(peer, 5)
    bed.write()
    assert acked(peer) == 0
    bed.in_sync.clear()
    bed.say()
    assert acked(peer) == 5
    bed.settle()


def test_a_policy_that_goes_lets_go_and_the_member_hears_of_first_and_last() -> None:
    bed = MirrorBed(PENSTOCK.name)
    peer = bed.publisher()
    bed.send(peer, 5)
    bed.write()
    assert (acked(peer), bed.member.words) == (0, [True])
    # Another policy that says the same of mirrors confirms nothing.
    more = Policy("/", "ha", "^q", {"ha-mode": "all", "max-length": 100})
    bed.broker.policy_manager.set(more, False)
    bed.run()
    assert (acked(peer), bed.member.words) == (0, [True])
    bed.broker.policy_manager.clear("/", "ha", False)
    bed.run()
    assert (acked(peer), bed.member.words) == (5, [True, False])
    bed.settle()


def test_a_queue_that_is_deleted_counts_as_taken() -> None:
    bed = MirrorBed(PENSTOCK.name)
    peer = bed.publisher()
    bed.send(peer, 5)
    bed.write()
    bed.connect("admin-2").call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.write()
    assert (acked(peer), bed.member.words) == (5, [True, False])
    bed.settle()


@pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_35.name])
def test_a_mirrored_queue_keeps_what_is_not_persistent_too(profile: str) -> None:
    bed = MirrorBed(profile)
    peer = bed.publisher()
    before = bed.disk.ran
    bed.send(peer, 5)
    bed.write()
    assert bed.disk.ran > before, "a mirror could not have it otherwise"
    bed.catch_up()
    assert acked(peer) == 5
    bed.settle()


def test_a_transaction_waits_for_the_mirrors_of_each_of_its_queues() -> None:
    bed = MirrorBed(PENSTOCK.name)
    peer = bed.connect("tx")
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.send(publish(1, "", "plain", b"one"), publish(1, "", "q", b"two"))
    peer.say(1, m.TxCommit())
    bed.write()
    assert not [one for one in peer.heard() if isinstance(one.method, m.TxCommitOk)]
    bed.catch_up()
    bed.write()
    assert [one for one in peer.heard() if isinstance(one.method, m.TxCommitOk)]
    bed.settle()
