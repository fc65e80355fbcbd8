"""When leaders of a new cluster may be spread: not before everybody has everything."""

import msgspec

from penstock.server.shards.spreading import are_settled
from tests.unit.cli.test_cluster_moves import leads


def test_all_who_are_online_have_everything() -> None:
    shards = leads("aaa")
    assert are_settled(shards)
    shards[1].nodes[2].is_whole = False
    assert not are_settled(shards)
    shards[1].nodes[2].is_whole = True
    shards[2].nodes[1].is_voter = False
    assert not are_settled(shards)


def test_a_node_that_is_away_is_not_waited_for() -> None:
    assert are_settled(leads("aaa", good="ab"))


def test_one_that_has_not_come_to_every_shard_is() -> None:
    shards = leads("aa")
    del shards[1].nodes[2]
    assert not are_settled(shards)


def test_leaders_themselves_say_so() -> None:
    shards = leads("aa")
    assert not are_settled([shards[0], msgspec.structs.replace(shards[1], node="b")])
    assert not are_settled([shards[0], msgspec.structs.replace(shards[1], leader="")])
    assert not are_settled([shards[0], msgspec.structs.replace(shards[1], is_etcd_reachable=False)])
