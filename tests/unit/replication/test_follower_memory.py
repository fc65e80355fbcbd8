"""What a follower keeps of the log in memory has a bound, as it has at the leader."""

from penstock.replication.actions import Apply, Persist, Send
from penstock.replication.config import LED, ClusterConfig
from penstock.replication.frames import (
    PROTOCOL,
    STREAM,
    Attach,
    Attached,
    Entries,
    Heartbeat,
    Hello,
)
from penstock.replication.member import Member
from penstock.replication.positions import Entry, Position
from penstock.replication.state import MemberState, Origin
from penstock.replication.timing import Bounds, Timing
from penstock.server.machine.machine import SystemChance

KEPT = 10_000
ENTRY = bytes(1000)
HERE = Position(3, 10)


class Follower:
    """Member `a`, which follows `b` in epoch 3 from HERE on; its disk is done at once."""

    def __init__(self) -> None:
        state = MemberState("c1", "a1", promised=3)
        bounds = Bounds(retention_bytes=KEPT)
        self.member = Member("a", state, HERE, Origin(), Timing(), bounds, SystemChance(), 1000)
        self.session = 0
        self.previous = HERE
        config = ClusterConfig("c1", 3, LED, "b", {"a": "a1", "b": "b1"})
        self.member.config_seen(config, 1, 1000)
        self.member.link_up("b", 1000)
        self.member.received("b", Hello(PROTOCOL, "c1", "b", "b1", 3), 1000)
        self.member.received("b", Heartbeat(3, True, HERE.seq), 1000)
        self.work()
        self.member.received("b", Attached(3, self.session, STREAM, HERE, HERE), 1000)
        self.work()

    def work(self) -> None:
        while actions := self.member.take_actions():
            for action in actions:
                if isinstance(action, Persist):
                    self.member.persisted(action.number, 1000)
                elif isinstance(action, Apply):
                    self.member.applied(action.entries[-1].position, 1000)
                elif isinstance(action, Send) and isinstance(action.frame, Attach):
                    self.session = action.frame.session

    def entry(self, commit_seq: int) -> None:
        one = Entry(3, self.previous.seq + 1, ENTRY)
        frame = Entries(3, self.session, self.previous, commit_seq, (one,))
        self.member.received("b", frame, 1000)
        self.previous = one.position
        self.work()


def test_what_is_committed_is_kept_up_to_the_bound() -> None:
    follower = Follower()
    ring = follower.member.replica.ring
    for _ in range(100):
        follower.entry(follower.previous.seq)
    assert follower.member.replica.position.seq == HERE.seq + 100
    assert ring.bytes == KEPT, "the newest, for others to be brought here should it lead"


def test_what_is_not_committed_is_kept_whole() -> None:
    """Should it lead, others may lack all of it."""
    follower = Follower()
    ring = follower.member.replica.ring
    for _ in range(100):
        follower.entry(HERE.seq)
    assert ring.bytes == 100 * len(ENTRY)
