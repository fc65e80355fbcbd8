"""One virtual host: its bound on queues, and what deleting a queue drags along."""

import sys
from types import FrameType

import pytest

from penstock.base.errors import ChannelFault
from penstock.broker.channel.publish import Publisher
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.vhost import PREDECLARED, VirtualHost
from tests.unit.broker.peer import Bed


def queue(bed: Bed, vhost: VirtualHost, name: str, owner: str = "") -> QueueActor:
    made = bed.broker.make_queue(vhost, name, False, False, owner, {})
    vhost.add_queue(made)
    return made


def test_the_exchanges_every_client_expects() -> None:
    vhost = VirtualHost("/", 10)
    for name, kind in (*PREDECLARED, ("", "direct")):
        found = vhost.find_exchange(name)
        assert found is not None and found.kind == kind and found.durable


def test_queues_are_bounded() -> None:
    bed = Bed()
    vhost = VirtualHost("/", 2)
    queue(bed, vhost, "a")
    queue(bed, vhost, "b")
    with pytest.raises(ChannelFault, match=r"queue limit in vhost '/' \(2\) is reached") as caught:
        queue(bed, vhost, "c")
    assert caught.value.code == 406


def test_bindings_are_bounded_and_an_equal_one_is_not_a_new_one() -> None:
    bed = Bed()
    vhost = VirtualHost("/", 10, bindings_max=1)
    target = queue(bed, vhost, "a").target
    source = vhost.find_exchange("amq.direct")
    assert source is not None
    for _ in range(2):
        vhost.bind(source, target, "k", {}, 50)
    with pytest.raises(ChannelFault, match=r"binding limit \(1\) is reached") as caught:
        vhost.bind(source, target, "other", {}, 50)
    assert caught.value.code == 406 and vhost.router.binding_count == 1
    assert vhost.route(source, ["other"], {}) == [], "nothing of the refused one is left"


def test_a_queue_is_removed_once_and_whoever_publishes_to_it_hears_of_it() -> None:
    bed = Bed()
    vhost = bed.broker.vhosts["/"]
    peer = bed.connect()
    one = queue(bed, vhost, "a")
    peer.publish("a", b"1")
    (lane,) = one.lanes
    publisher = lane.answerable
    assert isinstance(publisher, Publisher) and list(publisher.lanes) == ["a"]
    vhost.remove_queue(one)
    vhost.remove_queue(one)
    assert publisher.lanes == {} and vhost.queues == {} and not one.is_alive
    again = queue(bed, vhost, "a")
    peer.publish("a", b"2")
    vhost.remove_queue(one)
    assert list(publisher.lanes) == ["a"] and int(again.messages.ready_count()) == 1


def test_exclusive_queues_go_with_their_owner() -> None:
    bed = Bed()
    vhost = VirtualHost("/", 10)
    mine = [queue(bed, vhost, name, "conn:me") for name in "ab"]
    queue(bed, vhost, "c", "conn:other")
    vhost.remove_queue(mine[0])
    vhost.remove_owned("conn:me")
    vhost.remove_owned("conn:nobody")
    assert list(vhost.queues) == ["c"] and list(vhost.owned) == ["conn:other"]


def test_the_end_of_a_queue_costs_what_publishes_to_it() -> None:
    """Not what else is connected: of the others nobody is told."""
    calls = []
    for others in (1, 50):
        bed = Bed()
        vhost = bed.broker.vhosts["/"]
        peers = [bed.connect(f"peer {number}") for number in range(others + 1)]
        gone, stays = queue(bed, vhost, "gone"), queue(bed, vhost, "stays")
        peers[0].publish("gone", b"1")
        for peer in peers:
            peer.publish("stays", b"1")
        assert (len(gone.lanes), len(stays.lanes)) == (1, others + 1)
        count = 0

        def note(_frame: FrameType, event: str, _what: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        vhost.remove_queue(gone)
        sys.setprofile(None)
        calls.append(count)
        peers[0].publish("gone", b"2")
        assert len(stays.lanes) == others + 1
    assert calls[0] == calls[1]
