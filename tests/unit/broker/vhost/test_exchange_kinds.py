"""Consistent hash and random exchanges through a connection: what is hashed, what is refused."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, headers_property, publish

QUEUES = ("a", "b", "c")


def with_exchange(bed: Bed, kind: str, arguments: Table | None = None) -> Peer:
    peer = bed.connect()
    declare = m.ExchangeDeclare("x", kind, arguments=arguments or {})
    peer.call(1, declare, m.ExchangeDeclareOk)
    for queue in QUEUES:
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(queue, "x", "1"), m.QueueBindOk)
    return peer


def lengths(bed: Bed) -> list[int]:
    queues = bed.broker.vhosts["/"].queues
    return [int(queues[name].messages.ready_count()) for name in QUEUES]


def message_id(text: str) -> tuple[int, bytes]:
    return 0x0080, bytes([len(text)]) + text.encode()


def test_one_key_one_queue_and_many_keys_all_queues() -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-consistent-hash")
    for _ in range(5):
        peer.publish("customer.1", b"x", exchange="x")
    assert sorted(lengths(bed)) == [0, 0, 5]
    for number in range(60):
        peer.publish(f"customer.{number}", b"x", exchange="x")
    assert sum(lengths(bed)) == 65 and min(lengths(bed)) > 0


@pytest.mark.parametrize("argument", ["hash-header", "x-hash-on"])
def test_a_header_is_hashed_whatever_the_key(argument: str) -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-consistent-hash", {argument: "region"})
    for number in range(5):
        properties = headers_property({"region": "north"})
        peer.send(publish(1, "x", str(number), b"x", properties))
    assert sorted(lengths(bed)) == [0, 0, 5]
    for number in range(60):
        peer.send(publish(1, "x", "k", b"x", headers_property({"region": number})))
    assert sum(lengths(bed)) == 65 and min(lengths(bed)) > 0


def test_a_property_is_hashed_and_no_header_stands_for_it() -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-consistent-hash", {"hash-property": "message_id"})
    for number in range(5):
        peer.send(publish(1, "x", str(number), b"x", message_id("same")))
    assert sorted(lengths(bed)) == [0, 0, 5]
    for number in range(60):
        peer.send(publish(1, "x", "k", b"x", message_id(f"id {number}")))
    assert sum(lengths(bed)) == 65 and min(lengths(bed)) > 0
    before = lengths(bed)
    for number in range(10):
        spoof: Table = {"\0message_id": str(number), "message_id": str(number)}
        peer.send(publish(1, "x", "k", b"x", headers_property(spoof)))
    added = [new - old for old, new in zip(before, lengths(bed), strict=True)]
    assert sorted(added) == [0, 0, 10]


def test_the_property_counts_behind_another_exchange_too() -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-consistent-hash", {"hash-property": "message_id"})
    peer.call(1, m.ExchangeBind("x", "amq.fanout"), m.ExchangeBindOk)
    for number in range(60):
        peer.send(publish(1, "amq.fanout", "k", b"x", message_id(f"id {number}")))
    assert sum(lengths(bed)) == 60 and min(lengths(bed)) > 0


def test_random_spreads_publishes_of_one_key() -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-random")
    peer.publish("k", *[b"x"] * 90, exchange="x")
    assert sum(lengths(bed)) == 90 and min(lengths(bed)) > 15


def test_a_weight_that_is_none_closes_the_channel() -> None:
    bed = Bed()
    peer = with_exchange(bed, "x-consistent-hash")
    peer.say(1, m.QueueBind("a", "x", "much"))
    close = peer.one(m.ChannelClose)
    assert close.reply_code == 406
    assert (
        close.reply_text == 'PRECONDITION_FAILED - The binding key must be an integer: <<"much">>'
    )


def test_arguments_that_exclude_each_other_close_the_channel() -> None:
    bed = Bed()
    peer = bed.connect()
    both: Table = {"hash-header": "h", "hash-property": "message_id"}
    peer.say(1, m.ExchangeDeclare("x", "x-consistent-hash", arguments=both))
    close = peer.one(m.ChannelClose)
    assert close.reply_code == 406
    assert "mutually exclusive" in close.reply_text
    assert bed.broker.vhosts["/"].find_exchange("x") is None
