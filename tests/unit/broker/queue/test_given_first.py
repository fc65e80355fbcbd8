"""Who looks at a queue sees what its consumers could not be given, as in RabbitMQ."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, publish

LOOKS = (
    m.BasicGet("q"),
    m.QueuePurge("q"),
    m.QueueDeclare("q", passive=True),
    m.QueueDelete("q", if_empty=True),
)
KINDS: tuple[Table, ...] = (
    {},
    {"x-message-ttl": 60_000},
    {"x-max-priority": 3},
    {"x-max-length": 100},
    {"x-single-active-consumer": True},
)


def consumed(arguments: Table, prefetch: int = 0, **settings: object) -> tuple[Bed, Peer, Peer]:
    """A queue whose consumer waits, and somebody else."""
    bed = Bed(**settings)  # type: ignore[arg-type]  # tests name fields of Config
    peer, other = bed.connect("consumer", channels=2), bed.connect("other")
    peer.say(1, m.QueueDeclare("q", arguments=arguments), m.BasicQos(0, prefetch, False))
    peer.say(1, m.BasicConsume("q", "t"))
    peer.heard()
    return bed, peer, other


def seen(peer: Peer) -> tuple[list[bytes], m.Method]:
    """Bodies that are delivered, and what is answered."""
    heard = peer.heard()
    (answer,) = (one.method for one in heard if not isinstance(one.method, m.BasicDeliver))
    return [one.body for one in heard if isinstance(one.method, m.BasicDeliver)], answer


def count_of(answer: m.Method) -> int:
    """Messages that the answer tells of."""
    if isinstance(answer, m.BasicGetEmpty):
        return 0
    if isinstance(answer, m.BasicGetOk):
        return 1 + answer.message_count
    assert isinstance(answer, m.QueuePurgeOk | m.QueueDeclareOk | m.QueueDeleteOk), answer
    return answer.message_count


@pytest.mark.parametrize("arguments", KINDS, ids=str)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.NAME)
@pytest.mark.parametrize("is_other", [False, True])
def test_a_consumer_is_given_it_before_anybody_looks(
    look: m.Method, arguments: Table, is_other: bool
) -> None:
    bed, peer, other = consumed(arguments)
    asking, number = (other, 1) if is_other else (peer, 2)
    peer.connection.receive(publish(2, "", "q", b"x"))
    asking.connection.receive(method_frame(number, look))
    bed.run()
    heard = peer.heard()
    assert [one.body for one in heard if isinstance(one.method, m.BasicDeliver)] == [b"x"]
    answers = [one.method for one in (*heard, *other.heard()) if one.channel == number]
    (answer,) = (one for one in answers if not isinstance(one, m.BasicDeliver | m.BasicCancel))
    assert count_of(answer) == 0
    bed.settle()


@pytest.mark.parametrize("look", LOOKS[:3], ids=lambda look: look.NAME)
def test_what_no_consumer_has_room_for_is_seen(look: m.Method) -> None:
    bed, peer, _ = consumed({}, prefetch=2)
    peer.send(*(publish(2, "", "q", b"%d" % n) for n in range(5)), method_frame(2, look))
    given, answer = seen(peer)
    assert given == [b"0", b"1"] or isinstance(answer, m.BasicGetOk)
    assert count_of(answer) == 3
    bed.settle()


def test_a_queue_that_is_not_empty_for_its_consumers_is_not_deleted() -> None:
    bed, peer, _ = consumed({}, prefetch=1)
    delete = method_frame(2, m.QueueDelete("q", if_empty=True))
    peer.send(publish(2, "", "q", b"a"), publish(2, "", "q", b"b"), delete)
    given, answer = seen(peer)
    assert given == [b"a"] and isinstance(answer, m.ChannelClose) and answer.reply_code == 406
    bed.settle()


def test_a_paused_queue_gives_to_who_asks_nothing_either() -> None:
    bed, peer, _ = consumed({})
    actor = bed.broker.vhosts["/"].queues["q"]
    actor.pause(True)
    passive = method_frame(2, m.QueueDeclare("q", passive=True))
    peer.send(publish(2, "", "q", b"x"), passive)
    given, answer = seen(peer)
    assert (given, count_of(answer)) == ([], 1)
    actor.pause(False)
    bed.run()
    assert peer.bodies() == [b"x"]
    bed.settle()


def test_behind_a_full_socket_messages_stay_for_others() -> None:
    bed, peer, other = consumed({}, socket_output_high_bytes=4096)
    peer.take(0)
    other.publish("q", bytes(5000))
    other.send(publish(1, "", "q", b"x"), method_frame(1, m.BasicGet("q")))
    (got,) = other.heard()
    assert isinstance(got.method, m.BasicGetOk) and got.body == b"x"
    peer.take()
    assert peer.bodies() == [bytes(5000)]
    other.hang_up()
    assert peer.bodies() == [b"x"]
    bed.settle()


@pytest.mark.parametrize(
    ("arguments", "first"), [({}, "high"), ({"x-single-active-consumer": True}, "t")]
)
def test_the_higher_priority_is_given_it_and_the_active_one_alone(
    arguments: Table, first: str
) -> None:
    bed, peer, other = consumed(arguments)
    other.say(1, m.BasicConsume("q", "high", arguments={"x-priority": 5}))
    other.heard()
    peer.send(publish(2, "", "q", b"x"), method_frame(2, m.BasicGet("q")))
    found = [one.method for one in (*peer.heard(), *other.heard())]
    (tag,) = (one.consumer_tag for one in found if isinstance(one, m.BasicDeliver))
    assert tag == first
    bed.settle()
