"""However the bytes around connection.open come in pieces, a client that is handed over hears what
one hears that stays."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.actors.output import Shell
from penstock.broker.session.handover import Elsewhere, decode
from penstock.broker.session.negotiate import Negotiator
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.peer import Bed, Heard, Peer, PeerOutput, PeerShell, publish, start_ok

GOES = "there"


class LeavingShell(PeerShell):
    """One that can be handed over. left: the record, None while it stays."""

    def __init__(self, output: PeerOutput) -> None:
        super().__init__(output)
        self.left: bytes | None = None

    def hand_over(self, worker: int, record: bytes) -> None:
        assert worker == 7
        self.left = record
        # Nothing is read any more, as of a socket that is not watched.
        assert self.connection is not None
        self.connection.gate.close("test", "test")


class Other(Elsewhere):
    """Has one virtual host."""

    def worker_of(self, vhost: str) -> int:
        return 7 if vhost == GOES else -1

    def take(self, worker: int, record: bytes, shell: Shell) -> None:
        raise AssertionError("the shell keeps it")


def leaving(bed: Bed) -> tuple[Peer, LeavingShell]:
    """A peer of `bed`, whose shell is of the other kind."""
    peer = Peer(bed, "peer")
    shell = LeavingShell(peer.output)
    shell.bed, shell.connection = bed, peer.connection
    peer.shell = peer.output.shell = peer.connection.shell = shell
    return peer, shell


def arriving(bed: Bed, record: bytes) -> Peer:
    """The same client at the other process."""
    handover = decode(record)
    peer = Peer(bed, handover.peer, handover.peer_host)
    negotiator = peer.connection.verbs
    assert isinstance(negotiator, Negotiator)
    negotiator.go_on(peer.connection, handover, None)
    bed.run()
    return peer


def said(queues: int, sizes: list[int], vhost: str) -> bytes:
    """All that a client says in its life."""
    parts = [
        PROTOCOL_HEADER,
        method_frame(0, start_ok(name="tested")),
        method_frame(0, m.ConnectionTuneOk(2047, 131_072, 0)),
        b"\x08\x00\x00\x00\x00\x00\x00\xce",
        method_frame(0, m.ConnectionOpen(vhost)),
        method_frame(1, m.ChannelOpen()),
        method_frame(1, m.ConfirmSelect()),
    ]
    parts += [method_frame(1, m.QueueDeclare(f"q{number}")) for number in range(queues)]
    parts += [publish(1, "", "q0", b"x" * size) for size in sizes]
    parts += [method_frame(1, m.BasicGet("q0", no_ack=True)) for _ in sizes]
    parts += [method_frame(1, m.ChannelClose(200, "", 0, 0)), method_frame(3, m.ChannelOpen())]
    return b"".join(parts)


def by_channel(heard: list[Heard]) -> dict[int, list[object]]:
    """Which channel is answered first is nobody's business, nor how confirms are put together."""
    found: dict[int, list[object]] = {}
    confirmed: set[int] = set()
    for one in heard:
        if isinstance(one.method, m.BasicAck):
            first = 1 if one.method.multiple else one.method.delivery_tag
            confirmed.update(range(first, one.method.delivery_tag + 1))
        else:
            found.setdefault(one.channel, []).append(one)
    return found | {-1: [confirmed]}


def stays(data: bytes) -> list[Heard]:
    bed = Bed(vhosts=(GOES,))
    peer = Peer(bed, "peer")
    peer.send(data)
    return peer.heard()


@given(
    st.integers(1, 3),
    st.lists(st.sampled_from([0, 1, 100, 5000, 70_000]), max_size=3),
    st.data(),
)
def test_a_client_that_leaves_hears_the_same(
    queues: int, sizes: list[int], draw: st.DataObject
) -> None:
    data = said(queues, sizes, GOES)
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8).map(sorted), "cuts")
    near = draw.draw(st.lists(st.integers(0, 450), max_size=8), "cuts around connection.open")
    places = sorted({0, len(data), *cuts, *(at for at in near if at < len(data))})
    here, there = Bed(vhosts=("/",)), Bed(vhosts=(GOES,))
    here.broker.host.elsewhere = Other()
    first, shell = leaving(here)
    second: Peer | None = None
    for begin, end in itertools.pairwise(places):
        if second is not None:
            second.send(data[begin:end])
            continue
        first.send(data[begin:end])
        if shell.left is not None:
            second = arriving(there, shell.left)
            second.send(first.unread)
    assert second is not None
    assert by_channel(first.heard() + second.heard()) == by_channel(stays(data))
    assert here.log.errors == there.log.errors == []
    first.hang_up()
    assert not here.broker.connections and not here.broker.guessing.strangers
    there.settle()


@given(st.lists(st.integers(0, 6000), min_size=1, max_size=6), st.data())
def test_what_a_parser_has_not_looked_at_is_all_there(
    sizes: list[int], draw: st.DataObject
) -> None:
    frames = [method_frame(0, m.ConnectionUpdateSecret(b"s" * size, "")) for size in sizes]
    data = b"".join(frames)
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    end = draw.draw(st.sampled_from([*cuts, len(data)]))
    parser, received, taken = FrameParser(8192, 1 << 20), Received(), 0
    for begin, stop in itertools.pairwise([0, *(at for at in cuts if at < end), end]):
        if stop > begin:
            parser.feed(data[begin:stop])
        while taken < draw.draw(st.integers(0, len(frames))) and parser.next(received):
            taken += 1
        read = sum(len(frame) for frame in frames[:taken])
        assert parser.unread() == data[read:stop]
        assert len(parser.unread()) == parser.unread_bytes()
