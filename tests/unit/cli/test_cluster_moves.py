"""Which shards are to be led by which other nodes."""

import pytest
from msgspec.structs import replace

from penstock.base.errors import OperatorError
from penstock.broker.admin.cluster_answers import ClusterAnswer, NodeRow, moves_of
from penstock.cli.asking import RunningBroker
from penstock.cli.cluster_moves import meant, need_known, need_online, rest_fault
from penstock.cli.cluster_status import with_leaders


def row(name: str, is_leader: bool, is_good: bool) -> NodeRow:
    return NodeRow(
        name, "", "", "", is_good, is_good, is_leader, True, "", 0, 0, 0, is_good, False, False, ""
    )


def shard(
    number: int, leader: str, good: str = "abc", vhosts: tuple[str, ...] = ()
) -> ClusterAnswer:
    rows = [row(name, name == leader, name in good) for name in "abc"]
    return ClusterAnswer(
        *("", "", "", "a", "", leader, "", 1, 0, 0, 0, False, False, list("abc"), 2, True, "", 0),
        *(0, "", [], False, rows),
        shard=number,
        vhosts=list(vhosts),
    )


def leads(leaders: str, good: str = "abc") -> list[ClusterAnswer]:
    return [shard(number, name, good) for number, name in enumerate(leaders)]


def after(leaders: str, good: str = "abc") -> dict[str, int]:
    """How many each node leads when the moves are made."""
    found = list(leaders)
    for number, node in moves_of(leads(leaders, good)):
        found[number] = node
    return {name: found.count(name) for name in "abc"}


def test_leaders_are_spread_evenly() -> None:
    assert after("aaa") == {"a": 1, "b": 1, "c": 1}
    assert after("aaaa") == {"a": 2, "b": 1, "c": 1}
    assert after("aabbbb") == {"a": 2, "b": 2, "c": 2}
    assert len(moves_of(leads("aabbbb"))) == 2, "no more than has to be"


def test_what_is_even_stays() -> None:
    assert moves_of(leads("abc")) == moves_of(leads("ab")) == moves_of(leads("aabc")) == []


def test_a_node_that_is_away_or_not_whole_leads_nothing_more() -> None:
    assert after("aaaa", good="ab") == {"a": 2, "b": 2, "c": 0}


def test_the_shards_that_are_meant() -> None:
    whole = shard(0, "a")
    assert meant(whole, None, "") == [None]
    with pytest.raises(OperatorError, match="have one log, and no shards"):
        meant(whole, 1, "")
    whole.shards = [shard(0, "a", vhosts=("/",)), shard(1, "b", vhosts=("one",))]
    assert meant(whole, None, "") == [0, 1]
    assert meant(whole, 1, "") == meant(whole, None, "one") == [1]
    with pytest.raises(OperatorError, match="no vhost 'two'; one of: /, one"):
        meant(whole, None, "two")
    with pytest.raises(OperatorError, match=r"--shard 2: must be 0\.\.1"):
        meant(whole, 2, "")


def test_a_node_may_stop_when_the_others_are_a_majority_that_has_everything() -> None:
    whole = shard(0, "a")
    assert rest_fault(whole, "b") == ""
    whole = shard(0, "a", good="ab")
    assert rest_fault(whole, "c") == ""
    assert "without node 'b' 1 of 3 voters have everything" in rest_fault(whole, "b")
    assert "no node leads now" in rest_fault(shard(0, ""), "b")
    whole = shard(0, "a")
    whole.shards = [shard(0, "a"), shard(1, "a", good="ac")]
    assert "1 of 3 voters of shard 1 have everything" in rest_fault(whole, "c")
    whole.missing = ["shard 1: it has ended"]
    assert rest_fault(whole, "b") == "shard 1: it has ended"


def test_leadership_is_given_to_nodes_that_are_there() -> None:
    whole = shard(0, "a", good="ab")
    need_known(whole, "b")
    with pytest.raises(OperatorError, match="node 'a' knows of no cluster yet"):
        need_known(replace(whole, nodes=[]), "b")
    with pytest.raises(OperatorError, match="there is no node 'x'; there are a, b, c"):
        need_known(whole, "x")
    need_online(whole, "b")
    with pytest.raises(OperatorError, match="node 'c' is not there: start it first"):
        need_online(whole, "c")


class OneThatAnswers(RunningBroker):
    """A node that asks the leaders."""

    def __init__(self, answer: dict[str, object]) -> None:
        super().__init__("", "table")
        self.answer = answer

    def ask(self, request: dict[str, object], timeout_s: float = 60.0) -> dict[str, object]:
        assert request == {"op": "cluster_status", "at_leader": True}
        return self.answer


def test_who_may_not_be_stopped_the_leader_of_each_shard_says() -> None:
    """Elsewhere who is online has to do, and one that is being copied is."""
    seen: list[dict[str, object]] = [
        {"shard": number, "nodes": [], "quorum_critical": []} for number in (0, 1)
    ]
    told = [
        {"shard": 0, "node": "b", "leader": "b", "nodes": ["rows"], "quorum_critical": ["a", "b"]},
        {"shard": 1, "node": "a", "leader": "b", "nodes": ["no"], "quorum_critical": ["no"]},
    ]
    found = with_leaders(OneThatAnswers({"shards": told}), {**seen[0], "shards": seen})
    assert found["quorum_critical"] == found["shards"][0]["quorum_critical"] == ["a", "b"]
    assert found["nodes"] == found["shards"][0]["nodes"] == ["rows"]
    assert found["shards"][1] == seen[1], "it was not the leader who answered"
