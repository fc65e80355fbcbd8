"""One virtual host: its bound on queues, and what deleting a queue drags along."""

import pytest

from penstock.base.errors import ChannelFault
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


def test_a_queue_is_removed_once_and_listeners_hear_of_it() -> None:
    bed = Bed()
    vhost = VirtualHost("/", 10)
    gone: list[str] = []

    def hears(actor: QueueActor) -> None:
        gone.append(actor.name)

    vhost.listen(hears)
    one = queue(bed, vhost, "a")
    vhost.remove_queue(one)
    vhost.remove_queue(one)
    assert gone == ["a"] and vhost.queues == {} and not one.is_alive
    vhost.unlisten(hears)
    vhost.remove_queue(queue(bed, vhost, "a"))
    assert gone == ["a"]


def test_exclusive_queues_go_with_their_owner() -> None:
    bed = Bed()
    vhost = VirtualHost("/", 10)
    mine = [queue(bed, vhost, name, "conn:me") for name in "ab"]
    queue(bed, vhost, "c", "conn:other")
    vhost.remove_queue(mine[0])
    vhost.remove_owned("conn:me")
    vhost.remove_owned("conn:nobody")
    assert list(vhost.queues) == ["c"] and list(vhost.owned) == ["conn:other"]
