"""TLS on real sockets: content, certificates as users, and clients that mean no good."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.base.config import Config, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import TLS_HANDSHAKE_BYTES, Limit
from penstock.cli.certificates import make_authority, make_client, make_server
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.protocol.values import Table
from penstock.server.boot.node import Node
from penstock.server.machine.machine import resident_bytes
from penstock.server.net import handshakes
from penstock.server.net.tls import TlsSession, distinguished_name, is_user_from, user_of
from penstock.server.net.tls_endpoint import TlsEndpoint
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import LogBook, start_ok
from tests.unit.server.wire import Wire, book_of, running, until

NOW = datetime.now(UTC)
GUEST = UserConfig("guest", "guest", True)
APP = UserConfig("app", "not used")
EMPTY_HEADER = b"\x02\x00\x01" + (14).to_bytes(4, "big") + b"\x00\x3c" + bytes(12) + b"\xce"
"""Of a message without a body and properties."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("tls"))


def fill(directory: Path) -> Path:
    """The directory, with an authority, a broker's certificate, and those of two clients."""
    make_authority(directory, 30, NOW)
    make_server(directory, "server", ["localhost", "127.0.0.1"], 30, NOW)
    make_server(directory, "renewed", ["localhost"], 60, NOW)
    for user in ("app", "stranger"):
        make_client(directory, user, 30, NOW)
    make_client(directory, "late", 1, NOW - timedelta(days=3))
    return directory


def settings(shelf: Path, verify: str = "none") -> dict[str, object]:
    return {
        "tls_port": 0,
        "tls_cert": str(shelf / "server.pem"),
        "tls_key": str(shelf / "server.key"),
        "tls_ca": str(shelf / "ca.pem"),
        "tls_verify": verify,
        "users": (GUEST, APP),
    }


def trusting(shelf: Path, user: str = "") -> ssl.SSLContext:
    """A client's context. user: whose certificate it shows, "" for none."""
    context = ssl.create_default_context(cafile=str(shelf / "ca.pem"))
    if user:
        context.load_cert_chain(shelf / f"{user}.pem", shelf / f"{user}.key")
    return context


def address(node: Node) -> tuple[str, int]:
    assert node.tls_listener is not None
    return "127.0.0.1", node.tls_listener.port


def handshakes_of(node: Node) -> handshakes.Handshakes:
    assert node.tls_listener is not None and node.tls_listener.handshakes is not None
    return node.tls_listener.handshakes


async def connect(node: Node, context: ssl.SSLContext) -> Wire:
    host, port = address(node)
    return Wire(
        *await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    )


async def opened(node: Node, context: ssl.SSLContext) -> Wire:
    wire = await connect(node, context)
    await wire.open()
    return wire


async def echo(wire: Wire, body: bytes) -> None:
    """`body` there and back through a queue."""
    wire.say(1, m.QueueDeclare(exclusive=True))
    queue = (await wire.expect(m.QueueDeclareOk)).queue
    publish = method_frame(1, m.BasicPublish("", queue))
    head = b"\x02\x00\x01" + (14).to_bytes(4, "big")
    head += b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00\xce"
    step = 131_064
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    frames = [b"\x03\x00\x01" + len(one).to_bytes(4, "big") + one + b"\xce" for one in parts]
    wire.writer.write(b"".join((publish, head, *frames)))
    wire.say(1, m.BasicGet(queue, no_ack=True))
    await wire.expect(m.BasicGetOk)
    back = b""
    while len(back) < len(body):
        kind, size = (frame := await wire.read(7))[0], int.from_bytes(frame[3:], "big")
        payload = (await wire.read(size + 1))[:-1]
        back += payload if kind == 3 else b""
    assert back == body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_bodies_of_all_sizes_go_there_and_back(
    tmp_path: Path, shelf: Path, version: ssl.TLSVersion
) -> None:
    context = trusting(shelf)
    context.minimum_version = context.maximum_version = version
    async with running(tmp_path, **settings(shelf)) as node:
        wire = await opened(node, context)
        for size in (1, 16_384, 70_000, 3_000_000):
            await echo(wire, bytes(range(251)) * (size // 251 + 1))
        await wire.close()
        await until(lambda: not node.broker.connections)


async def test_both_ports_are_one_broker(tmp_path: Path, shelf: Path) -> None:
    async with running(tmp_path, **settings(shelf)) as node:
        plain, safe = await Wire.opened(node), await opened(node, trusting(shelf))
        plain.say(1, m.QueueDeclare("shared"))
        await plain.expect(m.QueueDeclareOk)
        safe.say(1, m.QueueDeclare("shared", passive=True))
        assert (await safe.expect(m.QueueDeclareOk)).queue == "shared"
        await plain.close()
        await safe.close()


async def test_the_port_without_tls_may_be_off(tmp_path: Path, shelf: Path) -> None:
    config = Config(port=-1, control_socket=str(tmp_path / "c"), **settings(shelf))  # type: ignore[arg-type]
    node = Node(config, asyncio.get_running_loop(), LogBook())
    await node.start()
    try:
        assert node.listener is None
        await (await opened(node, trusting(shelf))).close()
    finally:
        await node.stop()


async def test_nobody_could_connect_to_a_broker_without_ports(tmp_path: Path) -> None:
    config = Config(port=-1, control_socket=str(tmp_path / "c"))
    node = Node(config, asyncio.get_running_loop(), LogBook())
    with pytest.raises(OperatorError, match="nobody could connect"):
        await node.start()
    await node.stop()


# -- certificates as users -----------------------------------------------------------------------


async def log_in_by_certificate(node: Node, context: ssl.SSLContext) -> m.Method:
    """The broker's answer to SASL EXTERNAL."""
    wire = await connect(node, context)
    wire.writer.write(PROTOCOL_HEADER)
    offered = (await wire.expect(m.ConnectionStart)).mechanisms
    capabilities: Table = {"capabilities": {"authentication_failure_close": True}}
    wire.say(0, m.ConnectionStartOk(capabilities, "EXTERNAL", b"", "en_US"))
    head = await wire.read(7)
    answer = decode_method((await wire.read(int.from_bytes(head[3:], "big") + 1))[:-1])
    assert isinstance(answer, m.Method)
    assert (b"EXTERNAL" in offered.split()) == isinstance(answer, m.ConnectionTune) or isinstance(
        answer, m.ConnectionClose
    )
    await wire.close()
    return answer


async def test_a_certificate_is_a_user(tmp_path: Path, shelf: Path) -> None:
    async with running(tmp_path, **settings(shelf, "peer")) as node:
        answer = await log_in_by_certificate(node, trusting(shelf, "app"))
        assert isinstance(answer, m.ConnectionTune)


async def test_a_user_that_does_not_exist_is_refused_and_the_log_says_why(
    tmp_path: Path, shelf: Path
) -> None:
    async with running(tmp_path, **settings(shelf, "require")) as node:
        answer = await log_in_by_certificate(node, trusting(shelf, "stranger"))
        assert isinstance(answer, m.ConnectionClose) and answer.reply_code == 403
        assert any("'stranger', named by the client's cert" in one for one in book_of(node).lines)


async def test_external_is_offered_only_with_a_verified_certificate(
    tmp_path: Path, shelf: Path
) -> None:
    """F117."""
    async with running(tmp_path, **settings(shelf, "none")) as node:
        # The client has one, and is not asked for it.
        answer = await log_in_by_certificate(node, trusting(shelf, "app"))
        assert isinstance(answer, m.ConnectionClose) and answer.reply_code == 503
    async with running(tmp_path, **settings(shelf, "peer")) as node:
        answer = await log_in_by_certificate(node, trusting(shelf))
        assert isinstance(answer, m.ConnectionClose) and answer.reply_code == 503


@pytest.mark.parametrize("user", ["", "late"])
async def test_without_a_good_certificate_nobody_comes_in_where_it_is_required(
    tmp_path: Path, shelf: Path, user: str
) -> None:
    """F116: missing, and expired."""
    async with running(tmp_path, **settings(shelf, "require")) as node:
        with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
            await log_in_by_certificate(node, trusting(shelf, user))
        await until(lambda: handshakes_of(node).refused == 1)
        assert len(node.broker.connections) == 0
        await until(lambda: any("no TLS connection" in one for one in book_of(node).lines))
        answer = await log_in_by_certificate(node, trusting(shelf, "app"))
        assert isinstance(answer, m.ConnectionTune)


SUBJECT = ((("countryName", "DE"),), (("organizationName", "A, B"),), (("commonName", "app"),))


@pytest.mark.parametrize(
    ("user_from", "user"),
    [
        ("common_name", "app"),
        ("distinguished_name", "CN=app,O=A\\, B,C=DE"),
        ("subject_alternative_name", "one.example"),
        ("subject_alternative_name:dns:1", "two.example"),
        ("subject_alternative_name:email:0", "a@b.example"),
        ("subject_alternative_name:ip:0", ""),
    ],
)
def test_where_in_a_certificate_the_user_is(user_from: str, user: str) -> None:
    names = (("DNS", "one.example"), ("email", "a@b.example"), ("DNS", "two.example"))
    assert is_user_from(user_from)
    assert user_of({"subject": SUBJECT, "subjectAltName": names}, user_from) == user
    assert user_of({}, user_from) == ""


def test_a_name_with_special_characters_is_escaped() -> None:
    subject = ((("commonName", "#a+b "),), (("1.2.3.4", 'x"y'),))
    assert distinguished_name(subject) == '1.2.3.4=x\\"y,CN=\\#a\\+b\\ '


# -- certificates that change --------------------------------------------------------------------


async def test_certificates_are_exchanged_under_open_connections(
    tmp_path: Path, shelf: Path
) -> None:
    cert, key = tmp_path / "now.pem", tmp_path / "now.key"

    def lay_out(name: str) -> None:
        for path, suffix in ((cert, "pem"), (key, "key")):
            path.write_bytes((shelf / f"{name}.{suffix}").read_bytes())
            path.chmod(0o600)

    def shown(wire: Wire) -> object:
        found = wire.writer.get_extra_info("peercert")
        return found["notAfter"]

    lay_out("server")
    values = {**settings(shelf), "tls_cert": str(cert), "tls_key": str(key)}
    async with running(tmp_path, **values) as node:
        first = await opened(node, trusting(shelf))
        lay_out("renewed")
        node.hang_up()
        second = await opened(node, trusting(shelf))
        assert shown(first) != shown(second)
        key.write_text("nonsense")
        node.hang_up()
        third = await opened(node, trusting(shelf))
        assert shown(third) == shown(second)
        assert any("of before are shown on" in one for one in book_of(node).lines)
        for wire in (first, second, third):
            await echo(wire, b"still here")
            await wire.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tls_cert": "/not/there.pem"}, "tls_cert = '/not/there.pem' cannot be read"),
        ({"tls_key": "CA"}, "the key that of the first certificate"),
        ({"tls_verify": "always"}, "is none of none, peer, require"),
        ({"tls_verify": "peer", "tls_ca": ""}, "needs tls_ca"),
        ({"tls_min_version": "1.1"}, "is none of 1.2, 1.3"),
        ({"tls_ciphers": "ROT13"}, "names no cipher"),
        ({"tls_user_from": "nickname"}, "is none of common_name"),
        ({"tls_user_from": "subject_alternative_name:dns:x"}, "is none of common_name"),
    ],
)
def test_faulty_settings_are_refused_in_words(
    shelf: Path, change: dict[str, str], said: str
) -> None:
    values = {**settings(shelf), **change}
    if change.get("tls_key") == "CA":
        values["tls_key"] = str(shelf / "ca.key")
    with pytest.raises(OperatorError) as caught:
        TlsEndpoint(Config(**values), lambda _: None)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_key_that_everybody_may_read_is_warned_of(shelf: Path, tmp_path: Path) -> None:
    key = tmp_path / "open.key"
    key.write_bytes((shelf / "server.key").read_bytes())
    key.chmod(0o644)
    said: list[str] = []
    TlsEndpoint(Config(**{**settings(shelf), "tls_key": str(key)}), said.append)  # type: ignore[arg-type]
    assert said == [f"everybody on this machine may read the private key {key}: chmod o-r {key}"]


# -- clients that mean no good -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("junk", "said"),
    [
        (PROTOCOL_HEADER, "AMQP without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "it is no TLS"),
        (b"\x16\x03\x01\x00\x05hello", "no TLS connection"),
        (b"\x16\x03\x01\xff\xff" + bytes(70_000), "no TLS connection"),
    ],
)
async def test_what_is_no_tls_ends_at_once(
    tmp_path: Path, shelf: Path, junk: bytes, said: str
) -> None:
    async with running(tmp_path, **settings(shelf)) as node:
        wire = Wire(*await asyncio.open_connection(*address(node)))
        wire.writer.write(junk)
        await wire.rest()
        await wire.close()
        assert handshakes_of(node).refused == 1 and len(node.broker.connections) == 0
        assert any(said in one for one in book_of(node).lines)


async def test_a_handshake_that_does_not_go_on_ends(tmp_path: Path, shelf: Path) -> None:
    """F68: half a handshake, and none at all."""
    values = {**settings(shelf), "tls_handshake_ms": 300}
    async with running(tmp_path, **values) as node:
        hello = client_hello(shelf)
        for part in (hello[: len(hello) // 2], hello, b""):
            wire = Wire(*await asyncio.open_connection(*address(node)))
            wire.writer.write(part)
            await wire.rest()
            await wire.close()
        assert handshakes_of(node).refused == 3
        assert any("not done within 0.3 s" in one for one in book_of(node).lines)
        await (await opened(node, trusting(shelf))).close()


async def test_too_many_handshakes_are_refused_and_counted(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Limit(2, 1, 2, "", "", "", "")
    monkeypatch.setattr(handshakes, "TLS_HANDSHAKES", few)
    async with running(tmp_path, **settings(shelf)) as node:
        idle = [socket.create_connection(address(node), PATIENCE_S) for _ in range(2)]
        await until(lambda: len(handshakes_of(node).deadlines) == 2)
        wire = Wire(*await asyncio.open_connection(*address(node)))
        assert await wire.rest() == b""
        assert handshakes_of(node).refused == 1
        for one in idle:
            one.close()
        await until(lambda: not handshakes_of(node).deadlines)
        await (await opened(node, trusting(shelf))).close()
        await wire.close()


def client_hello(shelf: Path) -> bytes:
    outgoing = ssl.MemoryBIO()
    session = trusting(shelf).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


async def test_a_handshake_has_a_bound_of_bytes(tmp_path: Path, shelf: Path) -> None:
    """Records that TLS passes over must not feed the broker for ever."""
    async with running(tmp_path, **settings(shelf)) as node:
        wire = Wire(*await asyncio.open_connection(*address(node)))
        # In the handshake of TLS 1.3 records of this kind mean nothing (RFC 8446, D.4).
        wire.writer.write(client_hello(shelf))
        compat = b"\x14\x03\x03\x00\x01\x01"
        wire.writer.write(compat * (2 * TLS_HANDSHAKE_BYTES.default // len(compat)))
        await wire.rest()
        await wire.close()
        assert handshakes_of(node).refused == 1


async def test_a_record_that_was_changed_ends_the_connection(tmp_path: Path, shelf: Path) -> None:
    async with running(tmp_path, **settings(shelf)) as node:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = trusting(shelf).wrap_bio(incoming, outgoing, server_hostname="localhost")
        wire = Wire(*await asyncio.open_connection(*address(node)))
        await asyncio.wait_for(shake(session, incoming, outgoing, wire), PATIENCE_S)
        session.write(PROTOCOL_HEADER)
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        wire.writer.write(bytes(record))
        await wire.rest()
        await wire.close()
        await until(lambda: not node.broker.connections)
        # OpenSSL up to 3.1 says "decryption failed", since 3.2 "record layer failure".
        peer = next(one for one in book_of(node).lines if ": TLS: " in one)
        assert peer.endswith(("decryption failed or bad record mac; closed", "failure; closed"))


async def shake(
    session: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, wire: Wire
) -> None:
    while True:
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            wire.writer.write(outgoing.read())
            incoming.write(await wire.reader.read(65_536))
        else:
            wire.writer.write(outgoing.read())
            return


async def test_hello_and_header_in_one_piece(tmp_path: Path, shelf: Path) -> None:
    """What a client says right behind its handshake waits for no other byte."""
    async with running(tmp_path, **settings(shelf)) as node:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = trusting(shelf).wrap_bio(incoming, outgoing, server_hostname="localhost")
        wire = Wire(*await asyncio.open_connection(*address(node)))
        first: Callable[[bytes], None] = wire.writer.write
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        first(outgoing.read())
        while True:
            incoming.write(await asyncio.wait_for(wire.reader.read(65_536), PATIENCE_S))
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                continue
            break
        session.write(PROTOCOL_HEADER)
        first(outgoing.read())
        answer = b""
        while not answer:
            incoming.write(await asyncio.wait_for(wire.reader.read(65_536), PATIENCE_S))
            try:
                answer = session.read(65_536)
            except ssl.SSLWantReadError:
                continue
        assert answer[:1] == b"\x01"
        await wire.close()


class Sealed:
    """An AMQP client whose TLS is made by hand, so that it says in one piece what it wants to."""

    def __init__(self, wire: Wire, shelf: Path) -> None:
        self.wire = wire
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = trusting(shelf)
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.heard = b""

    async def open(self) -> None:
        """The whole handshake, and channel 1."""
        await asyncio.wait_for(
            shake(self.session, self.incoming, self.outgoing, self.wire), PATIENCE_S
        )
        await self.ask(PROTOCOL_HEADER, m.ConnectionStart)
        await self.ask(method_frame(0, start_ok()), m.ConnectionTune)
        tuned = method_frame(0, m.ConnectionTuneOk(2047, 131_072, 0))
        await self.ask(tuned + method_frame(0, m.ConnectionOpen("/")), m.ConnectionOpenOk)
        await self.ask(method_frame(1, m.ChannelOpen()), m.ChannelOpenOk)

    async def ask(self, said: bytes, answer: type[m.Method]) -> None:
        self.session.write(said)
        self.wire.writer.write(self.outgoing.read())
        await self.hears(answer)

    async def hears(self, answer: type[m.Method]) -> None:
        """Return once it has heard such a method, and forget what came before."""
        while answer.IDS not in self.heard:
            data = await asyncio.wait_for(self.wire.reader.read(65_536), PATIENCE_S)
            assert data != b"", "the broker has hung up"
            self.incoming.write(data)
            with suppress(ssl.SSLWantReadError):
                self.heard += self.session.read(65_536)
        self.heard = b""


async def test_what_comes_together_with_the_end_is_heard(tmp_path: Path, shelf: Path) -> None:
    """A client publishes and says goodbye, and the socket brings both at once."""
    async with running(tmp_path, **settings(shelf)) as node:
        client = Sealed(Wire(*await asyncio.open_connection(*address(node))), shelf)
        await client.open()
        await client.ask(method_frame(1, m.QueueDeclare("q")), m.QueueDeclareOk)
        await client.ask(method_frame(1, m.ConfirmSelect()), m.ConfirmSelectOk)
        publish = method_frame(1, m.BasicPublish("", "q"))
        client.session.write(publish + EMPTY_HEADER)
        with suppress(ssl.SSLWantReadError):
            client.session.unwrap()
        client.wire.writer.write(client.outgoing.read())
        await client.hears(m.BasicAck)
        await until(lambda: not node.broker.connections)
        assert node.broker.vhosts["/"].queues["q"].messages.ready_count() == 1
        await client.wire.close()


def shaken(endpoint: TlsEndpoint) -> TlsSession:
    """The broker's end of a session whose other end is of no interest any more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    ours, theirs = TlsSession(endpoint.context), TlsSession(context, is_server=False)
    while not (theirs.shake() and ours.shake()):
        ours.feed(theirs.to_send())
        ours.shake()
        theirs.feed(ours.to_send())
    return ours


def test_a_session_does_not_keep_the_room_of_the_largest_message(shelf: Path) -> None:
    """OpenSSL gives nothing back of what it has needed once, as long as the session lasts."""
    endpoint = TlsEndpoint(Config(**settings(shelf)), print)  # type: ignore[arg-type]  # by name
    sessions = [shaken(endpoint) for _ in range(12)]
    before = resident_bytes()
    for one in sessions:
        assert len(one.sealed(bytes(1 << 24))) > 1 << 24
    assert resident_bytes() - before < 100_000_000


async def test_one_address_does_not_keep_others_out(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Limit(4, 1, 4, "", "", "", "")
    monkeypatch.setattr(handshakes, "TLS_HANDSHAKES", few)
    async with running(tmp_path, **settings(shelf)) as node:
        idle = [socket.create_connection(address(node), PATIENCE_S) for _ in range(4)]
        await until(lambda: len(handshakes_of(node).deadlines) == 4)
        other = Wire(
            *await asyncio.open_connection(
                *address(node),
                ssl=trusting(shelf),
                server_hostname="localhost",
                local_addr=("127.0.0.2", 0),
            )
        )
        await other.open()
        assert handshakes_of(node).refused == 1
        assert len(handshakes_of(node).deadlines) == 3
        await other.close()
        for one in idle:
            one.close()
        await until(lambda: not handshakes_of(node).deadlines and not handshakes_of(node).hosts)


OLD_MACHINE = """\
openssl_conf = default_conf
[default_conf]
ssl_conf = ssl_sect
[ssl_sect]
system_default = system_default_sect
[system_default_sect]
MaxProtocol = TLSv1.2
"""
LOOK = """\
import sys
from penstock.base.config import Config
from penstock.server.net.tls_endpoint import TlsEndpoint
cert, key, ca = sys.argv[1:]
config = Config(tls_port=0, tls_cert=cert, tls_key=key, tls_ca=ca, tls_verify="require")
print(TlsEndpoint(config, print).left_s() > 0)
"""


def test_certificates_may_be_required_where_tls_1_3_is_off(shelf: Path, tmp_path: Path) -> None:
    """What looks at the broker's own certificate has none to show."""
    config = tmp_path / "openssl.cnf"
    config.write_text(OLD_MACHINE)
    files = [str(shelf / name) for name in ("server.pem", "server.key", "ca.pem")]
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *files],
        env=os.environ | {"OPENSSL_CONF": str(config)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
