"""Links on real sockets: greeted, authenticated, bounded, and made again."""

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import CLUSTER_LINK_FRAME_BYTES
from penstock.cli.certificates import make_authority, make_node
from penstock.server.cluster.admission import Self
from penstock.server.cluster.frame_reader import FrameReader
from penstock.server.cluster.link_frames import (
    HELLO,
    HELLO_BYTES,
    MESSAGE,
    Hello,
    LinkFault,
    check_frame,
    frame,
    packed,
    read_head,
    unpacked,
)
from penstock.server.cluster.link_io import READER_BYTES, LinkConnection, split_address
from penstock.server.cluster.link_tls import LinkTls, check_own, load_tls
from penstock.server.cluster.links import Links
from penstock.server.cluster.member_events import LinkEvents
from penstock.server.net.tls import TlsSession
from tests.unit.server.wire import until


class Book(LinkEvents):
    """What became of the links of one member."""

    def __init__(self) -> None:
        self.up: set[str] = set()
        self.refused: set[str] = set()
        self.frames: list[tuple[str, int, bytes]] = []
        self.words: list[str] = []
        self.failures: list[Exception] = []

    def link_failed(self, fault: Exception) -> None:
        self.failures.append(fault)

    def link_up(self, name: str) -> None:
        self.up.add(name)

    def link_down(self, name: str, *, is_refused: bool) -> None:
        self.up.discard(name)
        if is_refused:
            self.refused.add(name)

    def received(self, name: str, kind: int, payload: bytes) -> None:
        self.frames.append((name, kind, payload))

    def said(self, words: str) -> None:
        self.words.append(words)


async def nobody(hello: Hello, link: LinkConnection) -> None:
    raise LinkFault("no clients here")


class End:
    """One member with links."""

    def __init__(self, name: str, tls: LinkTls | None = None, cluster: str = "penstock") -> None:
        self.book = Book()
        me = Self(cluster, "", name, f"identity-{name}", f"boot-{name}")
        self.links = Links(me, tls, self.book, nobody)
        self.port = 0

    async def listen(self) -> str:
        self.port = await self.links.listen("127.0.0.1", self.port)
        return f"127.0.0.1:{self.port}"


async def joined(*ends: End) -> None:
    addresses = {end.links.me.name: await end.listen() for end in ends}
    for end in ends:
        name = end.links.me.name
        end.links.set_peers({other: at for other, at in addresses.items() if other != name})


async def close(*ends: End) -> None:
    for end in ends:
        await end.links.close()


def certificates(folder: Path, *names: str) -> Callable[[str], LinkTls]:
    now = datetime.now(UTC)
    folder.mkdir(exist_ok=True)
    make_authority(folder, 2, now)
    for name in names:
        make_node(folder, name, 2, now)
    ca = str(folder / "ca.pem")
    return lambda name: load_tls(str(folder / f"{name}.pem"), str(folder / f"{name}.key"), ca)


async def test_both_of_a_pair_send_over_one_connection(tmp_path: Path) -> None:
    tls = certificates(tmp_path, "a", "b")
    a, b = End("a", tls("a")), End("b", tls("b"))
    await joined(a, b)
    await until(lambda: a.book.up and b.book.up)
    big = bytes(3_000_000)
    assert a.links.send("b", MESSAGE, b"1") and a.links.send("b", MESSAGE, big)
    assert b.links.send("a", MESSAGE, b"2")
    await until(lambda: len(b.book.frames) == 2 and len(a.book.frames) == 1)
    assert b.book.frames == [("a", MESSAGE, b"1"), ("a", MESSAGE, big)]
    assert a.book.frames == [("b", MESSAGE, b"2")]
    await close(a, b)


async def test_a_node_that_is_gone_is_known_at_once_and_found_again() -> None:
    a, b, c = End("a"), End("b"), End("c")
    await joined(a, b, c)
    await until(lambda: all(len(end.book.up) == 2 for end in (a, b, c)))
    await b.links.close()
    # `a` dials it, and `c` was dialled by it: both hear that nobody is there.
    await until(lambda: "b" in a.book.refused and "b" in c.book.refused)
    assert a.book.up == {"c"} and c.book.up == {"a"}
    again = End("b")
    again.port = b.port
    await again.listen()
    again.links.set_peers({"a": f"127.0.0.1:{a.port}", "c": f"127.0.0.1:{c.port}"})
    await until(lambda: "b" in a.book.up and "b" in c.book.up)
    await close(a, again, c)


async def test_a_certificate_of_another_authority_or_node_is_refused(tmp_path: Path) -> None:
    ours = certificates(tmp_path / "ours", "a", "b", "c")
    theirs = certificates(tmp_path / "theirs", "b")
    a, b = End("a", ours("a")), End("b", theirs("b"))
    await joined(a, b)
    await until(lambda: a.book.words)
    assert not a.book.up and "--cluster-ca" in a.book.words[0]
    await close(a, b)
    a, b = End("a", ours("c")), End("b", ours("b"))
    await joined(a, b)
    await until(lambda: a.book.words and b.book.words)
    assert not a.book.up and any("a certificate of 'c'" in one for one in a.book.words)
    assert any("a certificate of 'c'" in one for one in b.book.words)
    await close(a, b)


async def test_a_node_of_another_cluster_is_refused_on_both_sides() -> None:
    a, b = End("a"), End("b", cluster="other")
    await joined(a, b)
    await until(lambda: len(a.book.words) > 1 and b.book.words)
    assert not a.book.up and not b.book.up
    assert any("cluster 'penstock' and 'b' to 'other'" in one for one in a.book.words)
    assert any("cluster 'penstock' and 'b' to 'other'" in one for one in b.book.words)
    await close(a, b)


async def test_a_stranger_costs_a_refusal_and_no_more() -> None:
    a = End("a")
    await a.listen()
    for junk in (b"GET / HTTP/1.1\r\n\r\n", frame(9, b""), bytes(5), b"\xff" * 64):
        reader, writer = await asyncio.open_connection("127.0.0.1", a.port)
        writer.write(junk)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
    assert not a.book.up
    await close(a)


class Breaks(Book):
    """Has a bug that some frames find."""

    def received(self, name: str, kind: int, payload: bytes) -> None:
        if payload == b"bug":
            raise AssertionError("the log has no gaps")
        if payload == b"fault":
            raise LinkFault("sends what is no frame")
        super().received(name, kind, payload)

    def link_down(self, name: str, *, is_refused: bool) -> None:
        super().link_down(name, is_refused=is_refused)
        if is_refused:
            raise AssertionError("nobody listens there")


async def test_a_bug_that_the_end_of_a_link_finds_is_told() -> None:
    a, b = End("a"), End("b")
    a.book = a.links.events = Breaks()
    await joined(a, b)
    await until(lambda: a.book.up and b.book.up)
    await b.links.close()
    await until(lambda: len(a.book.failures) > 0)
    assert "nobody listens" in str(a.book.failures[0])
    await close(a)


async def test_a_bug_that_a_frame_finds_is_told() -> None:
    a, b = End("a"), End("b")
    b.book = b.links.events = Breaks()
    await joined(a, b)
    await until(lambda: a.book.up and b.book.up)
    assert a.links.send("b", MESSAGE, b"fault")
    await until(lambda: any("no frame" in one for one in b.book.words))
    await until(lambda: a.book.up and b.book.up)
    assert b.book.failures == []
    assert a.links.send("b", MESSAGE, b"bug")
    await until(lambda: len(b.book.failures) > 0)
    assert "no gaps" in str(b.book.failures[0])
    await close(a, b)


async def test_a_peer_that_takes_nothing_is_cut_off_and_holds_nobody(tmp_path: Path) -> None:
    a, b, c = End("a"), End("b"), End("c")
    await joined(a, b, c)
    await until(lambda: all(len(end.book.up) == 2 for end in (a, b, c)))
    link = b.links.peers["a"].connection
    assert link is not None
    link._pause(is_paused=True)  # as a stopped process
    piece = bytes(8_000_000)
    sent = 0
    while a.links.send("b", MESSAGE, piece):
        sent += 1
        assert sent < 200, "there is no bound"
        await asyncio.sleep(0)
    assert any("falls behind" in one for one in a.book.words) or "b" in a.links.peers
    assert a.links.send("c", MESSAGE, b"on")
    await until(lambda: c.book.frames)
    await until(lambda: any("falls behind" in one for one in a.book.words))
    await close(a, b, c)


def test_frames_have_bounds() -> None:
    assert read_head(frame(MESSAGE, b"abc")[:5]) == (MESSAGE, 3)
    with pytest.raises(LinkFault, match="are allowed"):
        read_head((HELLO_BYTES + 1).to_bytes(4, "big") + b"\x07")
    with pytest.raises(LinkFault, match="are allowed"):
        check_frame(MESSAGE, CLUSTER_LINK_FRAME_BYTES.default)
    with pytest.raises(LinkFault):
        read_head(bytes(5))
    assert unpacked(packed(7, b"x")) == (7, b"x")
    with pytest.raises(LinkFault, match="without a number"):
        unpacked(b"abc")


def test_addresses_of_nodes() -> None:
    assert split_address("10.0.0.1:25672") == ("10.0.0.1", 25672)
    assert split_address("[::1]:1") == ("::1", 1)
    for text in ("", "host", "host:", ":1", "host:99999", "host:-1", "host:x"):
        with pytest.raises(ValueError):
            split_address(text)


def test_files_of_tls_that_are_none_are_refused(tmp_path: Path) -> None:
    certificates(tmp_path, "a", "b")
    a_pem, ca = str(tmp_path / "a.pem"), str(tmp_path / "ca.pem")
    with pytest.raises(OperatorError, match="is not there"):
        load_tls(a_pem, str(tmp_path / "no.key"), ca)
    with pytest.raises(OperatorError, match="no certificate and its key"):
        load_tls(a_pem, str(tmp_path / "b.key"), ca)
    with pytest.raises(OperatorError, match="no authority"):
        load_tls(a_pem, str(tmp_path / "a.key"), str(tmp_path / "a.key"))


def test_a_certificate_that_no_other_node_would_take_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    tls = certificates(tmp_path, "a", "b")
    check_own(tls("a"), "a", "a.pem", "ca.pem")
    with pytest.raises(OperatorError, match=r"a\.pem is the certificate of node 'a', and this is"):
        check_own(tls("a"), "b", "a.pem", "ca.pem")
    certificates(tmp_path / "foreign", "c")
    files = [str(tmp_path / one) for one in ("a.pem", "a.key", "foreign/ca.pem")]
    with pytest.raises(OperatorError, match=r"ca\.pem does not vouch for a\.pem"):
        check_own(load_tls(*files), "a", "a.pem", "ca.pem")
    for name, days in (("old", -9), ("early", 9)):
        make_node(tmp_path, name, 2, datetime.now(UTC) + timedelta(days=days))
        with pytest.raises(OperatorError, match="look at this machine's clock"):
            check_own(tls(name), name, f"{name}.pem", "ca.pem")


def test_frames_are_cut_wherever_reads_end() -> None:
    sent = [(MESSAGE, b"abc"), (9, b""), (MESSAGE, bytes(5000))]
    data = b"".join(frame(kind, payload) for kind, payload in sent)
    for step in (1, 4, 7, 5003, len(data)):
        reader = FrameReader(check_frame)
        found = []
        for at in range(0, len(data), step):
            found += reader.feed(data[at : at + step])
        assert found == sent
    with pytest.raises(LinkFault, match="are allowed"):
        FrameReader(check_frame).feed(data + bytes(5))


async def pair(tls: tuple[LinkTls, LinkTls] | None) -> tuple[LinkConnection, LinkConnection]:
    """Whoever has dialled, and whoever was: a connection that nobody has greeted."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[LinkConnection] = loop.create_future()
    theirs = None if tls is None else TlsSession(tls[1].accepting)
    server = await loop.create_server(
        lambda: LinkConnection(theirs, came.set_result), "127.0.0.1", 0
    )
    ours = None if tls is None else TlsSession(tls[0].dialling, is_server=False)
    dialled = LinkConnection(ours)
    await loop.create_connection(lambda: dialled, *server.sockets[0].getsockname())
    server.close()
    return dialled, await came


async def gone(*links: LinkConnection) -> None:
    for link in links:
        link.abort()
    await until(lambda: all(link._is_lost for link in links))


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LinkTls, LinkTls] | None:
    if request.param == "plain":
        return None
    of = certificates(tmp_path, "a", "b")
    return of("a"), of("b")


async def test_what_is_behind_the_first_frame_waits_and_is_passed_on_in_its_order(
    tls: tuple[LinkTls, LinkTls] | None,
) -> None:
    a, b = await pair(tls)
    a.write_frames(frame(HELLO, b"hello") + frame(MESSAGE, b"1") + frame(MESSAGE, b"2"))
    a.write(MESSAGE, bytes(1_000_000))
    assert await b.first() == (HELLO, b"hello")
    assert b.certified == (None if tls is None else "a")
    b.go_on()
    assert await b.read() == (MESSAGE, b"1")
    taken: list[bytes] = []
    passing = asyncio.create_task(b.pass_on(lambda kind, payload: taken.append(payload)))
    await until(lambda: len(taken) == 2)
    a.write(MESSAGE, b"3")
    await until(lambda: len(taken) == 3)
    assert taken == [b"2", bytes(1_000_000), b"3"]
    a.abort()
    with pytest.raises((EOFError, OSError)):
        await passing
    await gone(a, b)


async def test_a_stranger_may_not_send_much_before_he_is_known() -> None:
    a, b = await pair(None)
    a.write(HELLO, bytes(HELLO_BYTES))
    with pytest.raises(LinkFault, match="are allowed"):
        await b.first()
    await gone(a, b)
    a, b = await pair(None)
    a.write(HELLO, b"hello")
    for _ in range(32):
        a.write(MESSAGE, bytes(1_000_000))
    await asyncio.sleep(0.05)
    assert a.unsent > 16_000_000, "it is not read"
    await gone(a, b)


async def test_frames_that_nobody_reads_stop_the_socket(
    tls: tuple[LinkTls, LinkTls] | None,
) -> None:
    a, b = await pair(tls)
    a.write(HELLO)
    await b.first()
    b.go_on()
    for number in range(320):
        a.write(MESSAGE, number.to_bytes(2, "big") * 50_000)
    await until(lambda: b.unread > 2 * READER_BYTES)
    await asyncio.sleep(0.05)
    assert b.unread < 4 * READER_BYTES and a.unsent > 16_000_000
    for number in range(320):
        assert await b.read() == (MESSAGE, number.to_bytes(2, "big") * 50_000)
    await a.drain()
    a.write(MESSAGE, b"last")
    a.close()
    assert await b.read() == (MESSAGE, b"last"), "what came before the end is read"
    with pytest.raises(EOFError):
        await b.read()
    await gone(a, b)
    with pytest.raises(OSError):
        await b.drain()


async def test_a_fault_in_what_was_taken_ends_a_connection() -> None:
    a, b = await pair(None)
    a.write(HELLO)
    await b.first()
    b.go_on()
    taken: list[bytes] = []

    def take(kind: int, payload: bytes) -> None:
        taken.append(payload)
        raise LinkFault("sends junk")

    passing = asyncio.create_task(b.pass_on(take))
    a.write_frames(frame(MESSAGE, b"1") + frame(MESSAGE, b"2"))
    with pytest.raises(LinkFault, match="junk"):
        await passing
    a.write(MESSAGE, b"3")
    await asyncio.sleep(0.05)
    assert taken == [b"1"]
    await gone(a, b)


async def test_frames_that_are_queued_leave_with_the_next_flush_in_their_order() -> None:
    a, b = End("a"), End("b")
    await joined(a, b)
    await until(lambda: a.book.up and b.book.up)
    assert a.links.queue("b", MESSAGE, b"1") and a.links.queue("b", MESSAGE, b"2")
    peer = a.links.peers["b"]
    for end, name in ((a, "b"), (b, "a")):
        link = end.links.peers[name].connection
        assert link is not None
        assert link._transport is not None
        sock = link._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "none waits for another"
    assert len(peer.waiting) == 2 and not a.links.queue("nobody", MESSAGE)
    assert a.links.send("b", MESSAGE, b"3")
    assert peer.waiting_bytes == 0, "written before the loop has its turn"
    await until(lambda: len(b.book.frames) == 3)
    assert [payload for _, _, payload in b.book.frames] == [b"1", b"2", b"3"]
    await close(a, b)
