"""What a member refuses, in words: foreign directories, other clusters, old versions."""

import pytest

from penstock.replication.actions import Drop, Persist, Refuse, Send, Swap
from penstock.replication.config import LED, ClusterConfig
from penstock.replication.frames import PROTOCOL, Hello, Refused
from penstock.replication.leading import Progress
from penstock.replication.member import LEARNER, REFUSED, Member
from penstock.replication.positions import NOWHERE
from penstock.replication.refusals import of_moving
from penstock.replication.state import MemberState, Origin
from penstock.replication.timing import Bounds, Timing
from penstock.simulation.machine.dice import Dice

CONFIG = ClusterConfig("c1", 3, LED, "a", {"a": "a1", "b": "b1"}, forgotten={"x1": "x"})


def member(name: str, state: MemberState, origin: Origin | None = None) -> Member:
    return Member(name, state, NOWHERE, origin or Origin(), Timing(), Bounds(), Dice(1), 1000)


@pytest.mark.parametrize(
    ("name", "state", "has_data", "words"),
    [
        ("b", MemberState(identity="b2"), False, "is not the one the cluster knows"),
        ("x", MemberState("c1", "x1"), False, "was forgotten by the cluster"),
        ("d", MemberState("c0", "d1"), False, "belongs to cluster c0"),
        ("d", MemberState(identity="d1"), True, "holds a single node's data"),
    ],
)
def test_a_directory_that_does_not_belong_there_is_refused(
    name: str, state: MemberState, has_data: bool, words: str
) -> None:
    one = member(name, state, Origin(has_data=has_data))
    one.config_seen(CONFIG, 9, 1001)
    actions = one.take_actions()
    assert one.role == REFUSED
    assert any(isinstance(action, Refuse) and words in action.words for action in actions)
    # Nothing of it is overwritten: only the count of its starts was written.
    written = [action.state for action in actions if isinstance(action, Persist)]
    assert [each.cluster_id for each in written] == [state.cluster_id]


def test_an_empty_one_joins_and_is_not_whole_until_it_is_copied() -> None:
    one = member("d", MemberState(identity="d1"))
    one.config_seen(CONFIG, 9, 1001)
    assert one.role == LEARNER
    assert not one.replica.state.is_whole


def test_a_coordinator_that_lost_everything_gets_no_new_cluster() -> None:
    one = member("a", MemberState("c1", "a1"))
    one.config_seen(None, 0, 1001)
    assert one.role == REFUSED
    assert "knows nothing of cluster c1" in one.words


def test_the_first_member_makes_a_cluster_and_others_wait() -> None:
    first = member("a", MemberState(identity="a1"), Origin(has_data=True, cluster_id="c7"))
    first.config_seen(None, 0, 1001)
    made = [action for action in first.take_actions() if isinstance(action, Swap)]
    assert [(one.expected_revision, one.config.cluster_id) for one in made] == [(0, "c7")]
    told = member("b", MemberState(identity="b1"), Origin(may_create=False))
    told.config_seen(None, 0, 1001)
    assert "start the first one" in told.words


@pytest.mark.parametrize(
    ("hello", "words"),
    [
        (Hello(PROTOCOL + 2, "c1", "b", "b1", 3), "too much newer"),
        (Hello(PROTOCOL, "c2", "b", "b1", 3), "belongs to cluster c2"),
        (Hello(PROTOCOL, "c1", "b", "b2", 3), "is not the one the cluster knows"),
        (Hello(PROTOCOL, "c1", "b", "x1", 3), "was forgotten"),
        (Hello(PROTOCOL, "c1", "q", "b1", 3), "answers where b should"),
    ],
)
def test_a_peer_that_does_not_belong_there_is_told_so(hello: Hello, words: str) -> None:
    one = member("a", MemberState("c1", "a1"))
    one.config_seen(CONFIG, 9, 1001)
    one.take_actions()
    one.link_up("b", 1002)
    one.received("b", hello, 1003)
    actions = one.take_actions()
    assert any(
        isinstance(action, Send)
        and isinstance(action.frame, Refused)
        and words in action.frame.words
        for action in actions
    )
    assert any(isinstance(action, Drop) for action in actions)
    assert not one.is_linked("b")


def test_commands_for_the_leader_are_refused_elsewhere() -> None:
    one = member("b", MemberState("c1", "b1"))
    one.config_seen(CONFIG, 9, 1001)
    assert one.forget("a", 1002) == "b does not lead; ask a"
    assert one.resign("", 1002) == "b does not lead; ask a"


def test_leadership_is_given_to_one_that_has_everything_and_is_heard() -> None:
    one = member("a", MemberState("c1", "a1"))
    one.config_seen(CONFIG, 9, 1000)
    leading = one.begin_leading(CONFIG)
    leading.is_linked = frozenset().__contains__
    assert "node 'b' is not there: start it first" in of_moving("b", leading, 1000)
    assert "no other node has everything" in of_moving("", leading, 1000)
    leading.is_linked = frozenset({"b", "d"}).__contains__
    follower = leading.progress.setdefault("b", Progress(1000))
    assert "node 'b' has not everything yet" in of_moving("b", leading, 1000)
    follower.session, follower.is_whole = 1, True
    assert of_moving("b", leading, 1000) == of_moving("", leading, 1000) == ""
    learner = leading.progress.setdefault("d", Progress(1000))
    learner.session, learner.is_whole = 1, True
    assert "node 'd' has not everything yet" in of_moving("d", leading, 1000)
    assert "nothing was heard of node 'b' for 9000 ms" in of_moving("b", leading, 10_000)
    assert "no other node has everything" in of_moving("", leading, 10_000)
