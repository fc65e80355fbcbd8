"""Whatever channels, consumers and operators do to a quorum queue, its soft limit counts what is
not safe, holds whoever has too much of it and nobody else, and leaves nothing behind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.store.durability import StoreDurability
from penstock.flow.hop import HELD_PENDING
from penstock.flow.profile import PENSTOCK, RABBITMQ_4
from penstock.protocol import methods as m
from penstock.simulation.laws.ledger_checks import LedgerLaws
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from tests.unit.broker.peer import Bed, Peer, publish

LIMIT = 5
NAMES = ("a", "b")
"""Of publishers; the first of them confirms."""
SOON = (0x0100, b"\\x011")
"""A lifetime of a millisecond."""
DEEDS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(NAMES), st.integers(1, 2 * LIMIT)),
    st.tuples(st.just("send dying"), st.sampled_from(NAMES), st.integers(1, LIMIT)),
    st.tuples(st.just("commit"), st.sampled_from(NAMES), st.integers(1, 2 * LIMIT)),
    st.tuples(st.just("end"), st.sampled_from(NAMES), st.just(0)),
    st.tuples(
        st.sampled_from(("apply", "later", "ack", "purge", "delete", "full")),
        st.just(""),
        st.just(0),
    ),
    st.tuples(st.just("limit"), st.just(""), st.integers(0, 2 * LIMIT)),
)


class World(Bed):
    """A quorum queue on a disk driven by hand, publishers, and a consumer that acks when told."""

    def __init__(self, profile: str) -> None:
        super().__init__(profile=profile, quorum_commands_soft_limit=str(LIMIT))
        self.disk = HandDisk()
        give_store(self.broker, self.disk, SimDisk(), 1 << 20)
        self.admin = self.connect("admin")
        self.reader = self.connect("reader")
        self.peers: dict[str, Peer] = {}
        self.is_changed = False
        self.declare()
        self.law = LedgerLaws(self.broker)

    def declare(self) -> None:
        quorum: Any = {"x-queue-type": "quorum", "x-max-length": 40}
        quorum["x-overflow"] = "reject-publish"
        self.admin.call(1, m.QueueDeclare("q", durable=True, arguments=quorum), m.QueueDeclareOk)
        self.reader.say(1, m.BasicQos(0, 3), m.BasicConsume("q", "c"))
        self.reader.heard()

    def peer(self, name: str) -> Peer:
        found = self.peers.get(name)
        if found is None:
            found = self.peers[name] = self.connect(name)
            if name == NAMES[0]:
                found.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
            elif name == NAMES[1]:
                found.call(1, m.TxSelect(), m.TxSelectOk)
        return found

    def do(self, deed: str, name: str, count: int) -> None:
        if deed.startswith("send"):
            properties = (SOON,) if deed == "send dying" else ()
            self.peer(name).send(*(publish(1, "", "q", b"x", *properties) for _ in range(count)))
        elif deed == "commit":
            self.peer(NAMES[1]).say(1, m.TxCommit())
        elif deed == "end" and name in self.peers:
            self.peers.pop(name).hang_up()
        elif deed == "apply":
            self.disk.work()
        elif deed == "later":
            self.later(50_000_000)
        elif deed == "ack":
            self.reader.say(1, m.BasicAck(0, multiple=True))
        elif deed == "purge":
            self.admin.say(1, m.QueuePurge("q"))
        elif deed == "delete":
            self.admin.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
            self.reader = self.connect("reader")
            self.declare()
        elif deed == "limit":
            self.is_changed = True
            self.broker.context.soft_limit.limit = count
        self.admin.heard()
        self.run()

    def check(self) -> None:
        self.law.check_step()
        queue = self.actor("q")
        durability = queue.durability
        assert isinstance(durability, StoreDurability)
        requests = durability.store.requests()
        limit = self.broker.context.soft_limit.limit
        for lane in queue.lanes:
            commands = lane.commands
            if commands is None:
                continue
            unsafe = sum(len(one.messages) for one in requests if one.commands is commands)
            assert commands.taken == unsafe
            assert lane.in_flight == len(lane.items) - lane.head
            is_held = lane.held & HELD_PENDING != 0
            assert is_held == ((commands.holder, "pending") in lane.sender_gate.reasons)
            assert lane.is_closed or not is_held
            if not self.is_changed:
                assert not is_held or commands.pending() >= limit
                assert is_held or commands.pending() <= limit

    def end(self) -> None:
        """The disk does everything: nobody is held, and nothing is pending."""
        self.run()
        while self.disk.work():
            self.run()
        for lane in self.actor("q").lanes:
            if lane.commands is not None:
                assert lane.commands.taken == 0
                assert lane.held & HELD_PENDING == 0


@pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_4.name])
@given(deeds=st.lists(DEEDS, max_size=30))
def test_it_counts_what_is_not_safe(profile: str, deeds: list[tuple[str, str, int]]) -> None:
    world = World(profile)
    for deed in deeds:
        world.do(*deed)
        world.check()
    world.end()
    world.check()
