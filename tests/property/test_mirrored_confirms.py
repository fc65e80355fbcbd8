"""Mirrored queues under deeds in any order: nothing is confirmed that a mirror in sync lacks, and
everything is in the end.

The model is a list: of each publish the first entry of the cluster's log that it can be in. It is
looked at after every deed, for confirms that have come since.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.policy import Policy
from penstock.flow.profile import PENSTOCK, RABBITMQ_35
from penstock.protocol import methods as m
from tests.spec.test_mirror_scenarios import MirrorBed, acked
from tests.unit.broker.peer import Peer

NODES = ("b", "c")
DEEDS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 40)),
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("have"), st.sampled_from(NODES), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.sampled_from(NODES)),
    st.tuples(st.just("join"), st.sampled_from(NODES)),
    st.tuples(st.just("policy"), st.booleans()),
)


class World:
    """first: of each publish the first entry that it can be in; confirmed: how many of them are."""

    def __init__(self, profile: str) -> None:
        self.bed = MirrorBed(profile)
        self.peer: Peer = self.bed.publisher()
        self.first: list[int] = []
        self.confirmed = 0

    def send(self, count: int) -> None:
        # What is published now is in a batch that is made now or later.
        self.first += [self.bed.disk.ran + 1] * count
        self.bed.send(self.peer, count)

    def write(self, count: int) -> None:
        self.bed.disk.work(count)
        self.bed.run()
        self.peer.read_on()

    def have(self, name: str, more: int) -> None:
        """A mirror has more on its disk, but not what is not on the leader's."""
        self.bed.have[name] = min(self.bed.disk.ran, self.bed.have[name] + more)
        self.bed.say()

    def leave(self, name: str) -> None:
        self.bed.in_sync.discard(name)
        self.bed.online.discard(name)
        self.bed.say()

    def join(self, name: str) -> None:
        """Who is in sync has everything that was confirmed."""
        self.bed.have[name] = self.bed.disk.ran
        self.bed.in_sync.add(name)
        self.bed.online.add(name)
        self.bed.say()

    def policy(self, is_longer: bool) -> None:
        """Another policy that says the same of mirrors."""
        said: dict[str, object] = {"ha-mode": "all"}
        if is_longer:
            said["max-length"] = 1_000_000
        self.bed.broker.policy_manager.set(Policy("/", "ha", "^q", said), False)
        self.bed.run()

    def look(self) -> None:
        tag = acked(self.peer)
        for number in range(self.confirmed, tag):
            lacking = [n for n in self.bed.in_sync if self.bed.have[n] < self.first[number]]
            assert not lacking, f"publish {number + 1} is confirmed, and {lacking} lack it"
        self.confirmed = max(self.confirmed, tag)


@settings(max_examples=60, deadline=None)
@given(
    profile=st.sampled_from((PENSTOCK.name, RABBITMQ_35.name)),
    deeds=st.lists(DEEDS, min_size=12, max_size=40),
)
def test_what_is_confirmed_is_on_every_mirror_in_sync(
    profile: str, deeds: list[tuple[object, ...]]
) -> None:
    world = World(profile)
    for name, *what in deeds:
        getattr(world, str(name))(*what)
        world.look()
    for _ in range(len(world.first) + 5):
        world.write(10)
        world.bed.catch_up()
        world.look()
        if world.confirmed == len(world.first):
            break
    assert world.confirmed == len(world.first)
    assert not world.bed.broker.stores.stores["/"].behind
    world.peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    world.bed.settle()
