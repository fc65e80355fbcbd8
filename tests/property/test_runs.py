"""Several messages, or acks, handed on in one piece end where they end one by one.

A parser that is asked for runs finds what one finds that is not. A broker that reads a client's
bytes in one piece, where runs are long, answers and delivers as one that reads them frame by frame,
where there are none; and what may be charged in one piece changes the books as many charges do.
"""

import struct
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.cause import Cause
from penstock.base.clock import ManualClock
from penstock.broker.channel.publish_run import publish_run
from penstock.broker.session.handover import frames_of
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Strategy, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE, Hop
from penstock.flow.profile import PROFILES
from penstock.flow.room import Room
from penstock.protocol import methods as m
from penstock.protocol.content import EVENT_ACK, SharedMessage
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, publish

PAYER = Cause("payer")


# -- what is read ----------------------------------------------------------------------------------


class Found(NamedTuple):
    channel: int
    what: object
    body: bytes = b""
    is_shared: bool = False


def content(key: str, channel: int, size: int, fill: int, mode: int) -> bytes:
    """A publish whose content has a delivery mode (1, 2) or no properties (0)."""
    body = bytes([fill]) * size
    flags, values = (b"\x10\0", bytes([mode])) if mode else (b"\0\0", b"")
    payload = b"\0\x3c\0\0" + size.to_bytes(8, "big") + flags + values
    data = method_frame(channel, m.BasicPublish("", key))
    data += struct.pack(">BHI", 2, channel, len(payload)) + payload + b"\xce"
    if size:
        data += struct.pack(">BHI", 3, channel, size) + body + b"\xce"
    return data


CONTENTS = st.builds(
    content,
    st.sampled_from(("k", "other")),
    st.sampled_from((1, 1, 1, 2)),
    st.sampled_from((0, 1, 16, 16, 16, 17, 300)),
    # The end of a frame, and the begin of one, are bytes that a body may have as well.
    st.sampled_from((0, 1, 0xCE, 120)),
    st.sampled_from((0, 0, 1, 2)),
)
ACKS = st.builds(
    lambda first, steps, channel: b"".join(
        method_frame(channel, m.BasicAck(first + at, is_many)) for at, is_many in enumerate(steps)
    ),
    st.integers(0, 5) | st.just((1 << 63) - 3),
    st.lists(st.sampled_from((False, False, False, True)), min_size=1, max_size=6),
    st.integers(1, 2),
)
OTHERS = st.sampled_from(
    (
        method_frame(1, m.BasicNack(3, False, True)),
        method_frame(2, m.BasicQos(0, 5, False)),
        b"\x08\0\0\0\0\0\0\xce",
    )
)
STREAMS = st.lists(
    st.one_of(
        st.builds(lambda data, count: data * count, CONTENTS, st.integers(1, 6)),
        st.builds(
            lambda key, sizes: b"".join(content(key, 1, size, 7, 2) for size in sizes),
            st.sampled_from(("k", "other")),
            st.lists(st.sampled_from((0, 5, 5, 40)), max_size=8),
        ),
        ACKS,
        OTHERS,
    ),
    max_size=12,
).map(b"".join)


def parsed(pieces: list[bytes], most: int) -> list[Found]:
    """All that a parser finds in `pieces`, with runs of up to `most`, 0 for none."""
    parser = FrameParser(131_072, 1 << 20)
    received = Received()
    found: list[Found] = []
    for piece in pieces:
        parser.feed(piece)
        while parser.next(received):
            message, event = received.message, received.event
            if message is not None:
                number = int(received.channel)
                # As a publisher says that it goes to several queues.
                message.address.is_shared = b"other" in message.address.method
                all_ = [message]
                if most:
                    run = parser.next_run(message, PAYER, most, 10_000)
                    assert len(run) <= most and parser.run_bytes <= 10_000
                    assert parser.run_bytes == sum(len(one.raw) for one in run)
                    assert all(one.origin is PAYER for one in run)
                    all_ += run
                for one in all_:
                    assert one.channel == number and one.body_bytes == len(one.body())
                    name = (one.address.method, one.header())
                    found.append(Found(number, name, one.body(), isinstance(one, SharedMessage)))
            elif event is not None and event.kind == EVENT_ACK:
                if most:
                    assert parser.more_acks(event, most) == event.count - 1 <= most
                for at in range(int(event.count)):
                    tag = (int(event.tag) + at) & 0xFFFF_FFFF_FFFF_FFFF
                    found.append(Found(int(event.channel), (tag, event.flag)))
            elif event is not None:
                found.append(Found(int(event.channel), event.payload))
    return found


@settings(max_examples=300)
@given(STREAMS, st.lists(st.integers(1, 400), max_size=8), st.integers(1, 9))
def test_a_parser_finds_the_same_with_and_without_runs(
    stream: bytes, cuts: list[int], most: int
) -> None:
    pieces = []
    rest = stream
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    pieces.append(rest)
    assert parsed(pieces, most) == parsed(pieces, 0)


def test_a_damaged_frame_ends_a_run_and_is_found_by_the_next_look() -> None:
    one = content("k", 1, 16, 7, 0)
    for at in range(len(one)):
        damaged = one[:at] + bytes([one[at] ^ 0x10]) + one[at + 1 :]
        parser = FrameParser(131_072, 1 << 20)
        parser.feed(one * 3 + damaged + one)
        received = Received()
        assert parser.next(received) and received.message is not None
        run = parser.next_run(received.message, PAYER, 100, 1 << 20)
        # A body that differs is as good as any other.
        is_body = len(one) - 17 <= at < len(one) - 1
        assert len(run) == (4 if is_body else 2)
        assert parser.offset == len(one) * (5 if is_body else 3)


def test_bodies_of_other_sizes_are_found_together_too() -> None:
    sizes = (16, 1, 300, 300, 16, 5000, 5000, 5000, 1)
    parser = FrameParser(131_072, 1 << 20)
    parser.feed(b"".join(content("k", 1, size, 7, 2) for size in sizes))
    received = Received()
    assert parser.next(received) and received.message is not None
    run = parser.next_run(received.message, PAYER, 100, 1 << 20)
    assert [len(one.body()) for one in run] == list(sizes[1:])
    assert not parser.next(received)


def test_where_nothing_alike_follows_it_is_looked_for_rarely_and_then_again() -> None:
    small, large = content("k", 1, 16, 7, 0), content("other", 1, 16, 7, 0)
    parser = FrameParser(131_072, 1 << 20)
    parser.feed((small + large) * 40 + small * 200)
    received = Received()
    looks = runs = 0
    while parser.next(received):
        assert received.message is not None
        before = parser.skips
        runs += len(parser.next_run(received.message, PAYER, 50, 1 << 20))
        looks += before == 0
    assert looks < 20, "and not after each of the first 80"
    assert runs > 100, "most of the others are found together all the same"


# -- what a broker makes of it ---------------------------------------------------------------------


class Script(NamedTuple):
    """Peers say these in turn: (peer, bytes)."""

    profile: str
    is_acked: bool
    prefetch: int
    limit: int
    steps: list[tuple[int, list[bytes]]]


def publishes(key: str, count: int, size: int, exchange: str) -> list[bytes]:
    return [publish(1, exchange, key, b"%0*d" % (size, number)) for number in range(count)]


STEPS = st.tuples(
    st.integers(0, 1),
    st.builds(
        publishes,
        st.sampled_from(("q", "q", "r", "nowhere")),
        st.integers(1, 60),
        st.sampled_from((1, 16, 16, 2000)),
        st.sampled_from(("", "", "amq.fanout")),
    ),
)
SCRIPTS = st.builds(
    Script,
    st.sampled_from(("penstock", "adaptive", "rabbitmq-4", "none", "syndicate", "static-8")),
    st.booleans(),
    st.sampled_from((0, 1, 7)),
    st.sampled_from((0, 0, 20)),
    st.lists(STEPS, max_size=5),
)


class Play:
    """Two publishers with confirms, two queues with a consumer each, of which one acknowledges
    each delivery by itself. is_cut: everything is said frame by frame."""

    def __init__(self, script: Script, is_cut: bool) -> None:
        self.bed = Bed(profile=script.profile)
        self.is_cut = is_cut
        self.publishers = [self.bed.connect(f"publisher {number}") for number in range(2)]
        for peer in self.publishers:
            peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        self.consumers = {name: self._consume(name, script) for name in ("q", "r")}
        self.got: dict[str, list[tuple[bytes, int, bool]]] = {"q": [], "r": []}
        self.confirmed: list[dict[int, str]] = [{}, {}]

    def _consume(self, name: str, script: Script) -> Peer:
        peer = self.bed.connect(f"consumer of {name}")
        arguments: Table = {"x-max-length": script.limit} if script.limit else {}
        peer.call(1, m.QueueDeclare(name, arguments=arguments), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
        peer.call(1, m.BasicQos(0, script.prefetch, False), m.BasicQosOk)
        peer.call(1, m.BasicConsume(name, no_ack=not script.is_acked), m.BasicConsumeOk)
        return peer

    def play(self, script: Script) -> None:
        for number, frames in script.steps:
            for data in frames if self.is_cut else [b"".join(frames)]:
                self.publishers[number].send(data)
            self.hear(number, script.is_acked)
        self.bed.settle()

    def hear(self, number: int, is_acked: bool) -> None:
        self.confirmed[number].update(self.publishers[number].confirmed())
        while True:
            news = {name: peer.heard() for name, peer in self.consumers.items()}
            if not any(news.values()):
                return
            for name, found in news.items():
                acks = []
                for one in found:
                    assert isinstance(one.method, m.BasicDeliver)
                    tag = one.method.delivery_tag
                    self.got[name].append((one.body, tag, one.method.redelivered))
                    acks.append(method_frame(1, m.BasicAck(tag)))
                if is_acked:
                    for data in acks if self.is_cut else [b"".join(acks)]:
                        self.consumers[name].send(data)
            self.confirmed[number].update(self.publishers[number].confirmed())

    def counts(self) -> dict[str, tuple[int, ...]]:
        return {
            name: tuple(
                int(count)
                for count in (
                    actor.messages.publish_count,
                    actor.messages.deliver_count,
                    actor.messages.ack_count,
                    actor.messages.ready_count(),
                    actor.messages.bytes_ready,
                    actor.unacked_count,
                    actor.unacked_bytes,
                )
            )
            for name, actor in self.bed.broker.vhosts["/"].queues.items()
        }


@settings(max_examples=150, deadline=None)
@given(SCRIPTS)
def test_bytes_in_one_piece_end_as_frame_by_frame(script: Script) -> None:
    if script.limit:
        # What is dropped depends on how much lies there at a time.
        script = script._replace(is_acked=False, prefetch=0)
    whole, cut = Play(script, False), Play(script, True)
    whole.play(script)
    cut.play(script)
    assert whole.got == cut.got or script.limit
    assert whole.confirmed == cut.confirmed
    if not script.limit:
        assert whole.counts() == cut.counts()
    for play in (whole, cut):
        published = sum(len(frames) for _, frames in script.steps)
        assert sum(len(one) for one in play.confirmed) == published, "each is answered, and once"


@pytest.mark.parametrize("spent", ["q", "r"])
def test_a_queue_without_bytes_to_spare_ends_a_run_for_all(spent: str) -> None:
    bed = Bed()
    peer = bed.connect()
    for name in ("q", "r"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    peer.publish("", b"first", exchange="amq.fanout")
    publisher = peer.connection.channels[1].publisher
    parser = FrameParser(131_072, 1 << 20)
    parser.feed(publish(1, "amq.fanout", "", b"x") * 20)
    received = Received()
    assert parser.next(received) and received.message is not None
    items = parser.next_run(received.message, publisher.account, 100, 1 << 20)
    lane = publisher.lanes[spent]
    bytes_ = int(lane.balance_bytes) - 1
    publisher.strategy.charge(lane, publisher.account, 1, bytes_)
    assert publish_run(publisher, items, 0, 20) == (0, 0)
    publisher.strategy.repay(lane, publisher.account, 1, bytes_)
    assert publish_run(publisher, items, 0, 20)[0] == len(items) == 19


def test_a_run_of_acks_with_one_that_nobody_waits_for_ends_there() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *(b"%d" % number for number in range(10)))
    peer.say(1, m.BasicConsume("q", no_ack=False))
    peer.heard()
    peer.say(1, m.BasicAck(3))
    peer.send(*(method_frame(1, m.BasicAck(tag)) for tag in range(1, 7)))
    answers = peer.heard()
    assert isinstance(answers[-1].method, m.ChannelClose), answers
    assert answers[-1].method.reply_code == 406
    assert "unknown delivery tag 3" in answers[-1].method.reply_text
    assert bed.actor("q").messages.ack_count == 3, "1 and 2 before it, and 3 itself"
    assert bed.actor("q").messages.ready_count() == 7, "what was not acknowledged came back"


def test_acks_in_a_row_are_the_transaction_s_until_it_is_committed() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *(b"%d" % number for number in range(10)))
    peer.say(1, m.BasicConsume("q", no_ack=False))
    peer.heard()
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.send(*(method_frame(1, m.BasicAck(tag)) for tag in range(1, 9)))
    assert bed.actor("q").unacked_count == 10
    peer.call(1, m.TxCommit(), m.TxCommitOk)
    assert bed.actor("q").unacked_count == 2 and bed.actor("q").messages.ack_count == 8


# -- what is charged -------------------------------------------------------------------------------


class Hearing(GateObserver):
    """How often a gate closed."""

    def __init__(self) -> None:
        self.closed = 0

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.closed += 1


class Charged:
    """A hop to a queue with a room, and who pays."""

    def __init__(self, strategy: Strategy, mark: int, depth: int) -> None:
        clock = ManualClock()
        self.ears = Hearing()
        self.sender = Gate("chan", clock, self.ears)
        receiver = Gate("queue", clock, Hearing())
        self.account = Account("payer", None, self.sender, mark)
        self.hop = Hop("chan", LAYER_CHANNEL, self.sender, "queue", LAYER_QUEUE, receiver)
        self.strategy = strategy
        strategy.join(self.account)
        strategy.wire(self.hop)
        self.room = Room(receiver, "consumers", 64)
        self.room.limit_bytes = depth
        self.room.join(self.hop)

    def books(self) -> tuple[int, ...]:
        hop, account = self.hop, self.account
        return tuple(
            int(number)
            for number in (
                *(hop.balance, hop.balance_bytes, hop.in_flight, hop.in_flight_bytes),
                *(account.debt_messages, account.debt_bytes, self.room.in_flight_bytes),
                *(hop.blocks, self.ears.closed, hop.is_closed, self.room.is_tight),
            )
        )


@given(
    st.sampled_from(sorted(PROFILES)),
    st.lists(st.integers(1, 3000), max_size=12),
    st.integers(1, 40),
    st.sampled_from((0, 5_000, 200_000)),
    st.sampled_from((1_000, 40_000, 1 << 40)),
)
def test_what_is_spare_is_charged_in_one_piece_as_one_by_one(
    profile: str, before: list[int], small: int, mark: int, depth: int
) -> None:
    made = [Charged(PROFILES[profile].strategy(), mark, depth) for _ in range(2)]
    whole, single = made
    for one in made:
        for size in before:
            one.strategy.charge(one.hop, one.account, 1, size)
    assert whole.books() == single.books()
    count, bytes_ = whole.strategy.spare(whole.hop, whole.account)
    count = min(int(count), int(bytes_) // small, 3000)
    if count < 1:
        return
    closed = whole.ears.closed
    whole.strategy.charge(whole.hop, whole.account, count, count * small)
    for _ in range(count):
        single.strategy.charge(single.hop, single.account, 1, small)
    assert whole.books() == single.books()
    assert whole.ears.closed == closed, "nothing was met on the way"


def test_a_window_is_spare_up_to_the_last_message() -> None:
    one = Charged(Credit("credit", Window(10, 5, "messages"), Window(0, 0, "bytes")), 0, 1 << 40)
    assert one.strategy.spare(one.hop, one.account)[0] == 9, "the tenth closes the gate"
    one.strategy.charge(one.hop, one.account, 9, 900)
    assert one.strategy.spare(one.hop, one.account)[0] == 0
    one.strategy.charge(one.hop, one.account, 1, 100)
    assert one.hop.is_closed and one.strategy.spare(one.hop, one.account) == (0, 0)


def test_acks_that_stand_for_several_are_handed_to_another_process_one_by_one() -> None:
    parser = FrameParser(131_072, 1 << 20)
    said = b"".join(method_frame(3, m.BasicAck(tag)) for tag in range(5, 9))
    parser.feed(said)
    received = Received()
    assert parser.next(received) and received.event is not None
    assert parser.more_acks(received.event, 100) == 3
    assert frames_of([received.event]) == said
