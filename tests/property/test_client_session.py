"""Laws of the client session: cuts of the input change nothing, and confirms balance."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.channel_state import Unconfirmed
from penstock.client.events import ClientEvent, Confirmed, Delivery, Replied
from penstock.client.session import ClientSession
from penstock.client.url import BrokerUrl
from penstock.protocol import methods as m
from tests.unit.client.scripted import START_NS, ScriptedBroker, Wire, open_wire


def shown(event: ClientEvent) -> object:
    """An event as something to compare: deliveries by what they say."""
    if isinstance(event, Delivery):
        return (event.channel, event.delivery_tag, event.redelivered, event.routing_key, event.body)
    if isinstance(event, Replied):
        return (event.channel, event.request, event.reply)
    return event


def conversation(bodies: list[bytes], step: int) -> tuple[list[object], list[object]]:
    """One fixed conversation with deliveries of `bodies`, carried `step` bytes at a time."""
    wire = open_wire(step)
    channel = wire.channel()
    wire.session.request(channel, m.ConfirmSelect())
    wire.session.request(channel, m.BasicConsume("q"))
    wire.pump()
    for number, body in enumerate(bodies, 1):
        wire.session.publish(channel, "", "q", body)
        wire.broker.say_content(channel, m.BasicDeliver("t", number, False, "", "q"), body)
        wire.broker.say(channel, m.BasicAck(number, number % 3 == 0))
    wire.pump()
    wire.session.close()
    wire.pump()
    published = [message.body() for message in wire.broker.published]
    return [shown(event) for event in wire.events], [*wire.broker.heard, *published]


@given(
    st.lists(st.binary(max_size=40) | st.just(b"x" * 10_000), max_size=4),
    st.integers(min_value=1, max_value=300),
)
def test_any_cut_of_the_bytes_gives_the_same_conversation(bodies: list[bytes], step: int) -> None:
    assert conversation(bodies, step) == conversation(bodies, 0)


def test_byte_by_byte_gives_the_same_conversation() -> None:
    bodies = [b"", b"abc", b"y" * 9000]
    assert conversation(bodies, 1) == conversation(bodies, 0)


@given(st.binary(max_size=200))
def test_no_input_makes_the_session_raise(data: bytes) -> None:
    session = ClientSession(BrokerUrl(), "", START_NS)
    session.feed(data, START_NS)
    wire = open_wire()
    wire.session.feed(data, START_NS)


@given(st.binary(min_size=1, max_size=60), st.integers(min_value=0, max_value=400))
def test_damage_on_the_way_closes_or_waits_but_never_raises(noise: bytes, at: int) -> None:
    wire = open_wire()
    channel = wire.channel()
    wire.session.request(channel, m.ConfirmSelect())
    wire.pump()
    wire.broker.say_content(channel, m.BasicDeliver("t", 1, False, "ex", "key"), b"body" * 20)
    wire.broker.say(channel, m.BasicAck(1, True))
    data = wire.broker.output()
    at = at % len(data)
    wire.session.feed(data[:at] + noise + data[at + len(noise) :], START_NS)


@given(st.data())
def test_every_publish_is_settled_exactly_once(data: st.DataObject) -> None:
    """Against a naive twin: a dictionary searched from end to end."""
    books = Unconfirmed(1000)
    twin: dict[int, int] = {}
    for _ in range(data.draw(st.integers(0, 30))):
        if data.draw(st.booleans()):
            mark = data.draw(st.integers(0, 5))
            sequence = books.add(mark)
            assert sequence not in twin
            twin[sequence] = mark
        else:
            tag = data.draw(st.integers(0, 35))
            multiple = data.draw(st.booleans())
            named = [n for n in sorted(twin) if n == tag or (multiple and (n < tag or tag == 0))]
            expected = (named, [twin.pop(n) for n in named])
            assert books.settle(tag, multiple) == expected
        assert len(books) == len(twin)


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=12))
def test_confirmed_events_balance_the_books(answers: list[tuple[int, bool, bool]]) -> None:
    wire = Wire(broker=ScriptedBroker())
    wire.open()
    channel = wire.channel()
    wire.session.request(channel, m.ConfirmSelect())
    wire.pump()
    sequences = [wire.session.publish(channel, "", "q", b"") for _ in range(10)]
    for tag, multiple, is_accepted in answers:
        method = m.BasicAck(tag, multiple) if is_accepted else m.BasicNack(tag, multiple)
        wire.broker.say(channel, method)
    settled = [n for event in wire.pump() if isinstance(event, Confirmed) for n in event.sequences]
    assert len(settled) == len(set(settled))
    assert set(settled) <= set(sequences)
    assert len(settled) + wire.session.unconfirmed(channel) == len(sequences)
