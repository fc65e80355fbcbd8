"""A machine that loses power loses what was not synced: its directory does not go on from there."""

import pytest

from penstock.replication.actions import Send
from penstock.replication.config import LED, ClusterConfig
from penstock.replication.following import Following
from penstock.replication.frames import LOST, RESYNC, STREAM, Attach, Attached
from penstock.replication.leading import Leading
from penstock.replication.positions import Entry, Position
from penstock.replication.replica import Replica
from penstock.replication.state import MemberState
from penstock.replication.timing import Bounds, Timing

HERE = Position(3, 10)


def replica(machine: str, *, open_epoch: int = 3) -> Replica:
    """On the machine that says so, of a directory that was written while it said `monday`."""
    state = MemberState("c1", "a1", promised=3, open_epoch=open_epoch, machine="monday")
    return Replica("a", state, HERE, [], machine)


def asked(one: Replica) -> Attach:
    """What it asks the leader of epoch 3."""
    following = Following(one, Timing(), lambda _: True)
    following.follow("b", 3, 1000)
    return said(one)


def said(one: Replica) -> Attach:
    """What its member was to send last."""
    frames = [action.frame for action in one.actions if isinstance(action, Send)]
    assert isinstance(frames[-1], Attach)
    return frames[-1]


def decided(frame: Attach) -> str:
    """What that leader answers, which has the entries behind HERE."""
    own = Replica("b", MemberState("c1", "b1", promised=3, open_epoch=3), HERE, [])
    own.restart_at(HERE)
    own.take(Entry(3, 11, b"entry"))
    config = ClusterConfig("c1", 3, LED, "b", {"a": "a1", "b": "b1"})
    leading = Leading(own, config, Timing(), Bounds(), lambda _: True, 1000)
    return leading.decision("a", frame)


def test_after_a_kill_it_goes_on_and_after_a_loss_of_power_it_is_copied() -> None:
    for machine, answer in (("monday", STREAM), ("tuesday", RESYNC)):
        assert decided(asked(replica(machine))) == answer


def test_what_was_stopped_in_order_goes_on_wherever_it_is() -> None:
    one = replica("tuesday", open_epoch=0)
    assert decided(asked(one)) == STREAM
    # And may be killed there.
    assert one.open_state(3).machine == "tuesday"


@pytest.mark.parametrize("later", ["tuesday", "wednesday"])
def test_a_member_that_ends_before_it_was_copied_still_has_to_be(later: str) -> None:
    one = replica("tuesday")
    after = Replica("a", one.open_state(3), HERE, [], later)
    assert asked(after).open_epoch == LOST


def test_who_was_copied_goes_on() -> None:
    one = replica("tuesday")
    following = Following(one, Timing(), lambda _: True)
    following.follow("b", 3, 1000)
    session = said(one).session
    following.attached(Attached(3, session, RESYNC, HERE, HERE), 1000)
    one.persisted(1)
    following.copied(session, 2000)
    frame = said(one)
    assert frame.is_copied and decided(frame) == STREAM
    # A second loss of power in the middle of it is one too many.
    assert not one.durable.is_whole
