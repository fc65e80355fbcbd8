"""What one client, or one operator's question, may do within the documented limits, to the utmost.

Each attack begins when it says so, lasts for as long as it was told, and returns how much it did.
"""

import contextlib
import random
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

from bench.outside.wire import (
    FRAME_BODY,
    FRAME_HEADER,
    Connection,
    Loop,
    frame,
    method,
    publish_bytes,
    short,
    table,
)
from penstock.server.control.control_client import ask

BEGUN: Final = "begun"
MIB: Final = 1 << 20
NO_ARGUMENTS: Final = b"\x00" + table({})
"""No wait, and an empty table."""
TLS_BEHIND: Final = 1
"""The port of TLS is so far behind the other one."""


class Attacker:
    """One attack. scale: of its numbers, 1.0 for the documented ones; until: monotonic seconds at
    which it ends; control: the broker's control socket."""

    def __init__(self, port: int, control: str, seconds: float, scale: float) -> None:
        self.port = port
        self.control = control
        self.scale = scale
        self.seconds = seconds
        self.until = 0.0
        self.loop = Loop()
        self.dice = random.Random(1)

    def connect(self, channels: int = 1) -> Connection:
        """A connection with channels open."""
        made = Connection(self.loop, self.port)
        for number in range(1, channels + 1):
            made.channel(number)
        return made

    def count(self, full: int) -> int:
        """So many, in this scale."""
        return max(4, round(full * self.scale))

    def begin(self) -> None:
        """What was got ready is there: the attack is on from here."""
        self.until = time.monotonic() + self.seconds
        print(BEGUN, flush=True)

    def is_on(self) -> bool:
        return time.monotonic() < self.until

    def push(self, connection: Connection, data: bytes) -> None:
        """Send, and wait while too much is unsent or until the attack is over."""
        connection.send(data)
        self.loop.run(
            1.0 if connection.outbox_bytes > MIB else 0.0,
            lambda: connection.outbox_bytes < MIB or bool(connection.closed),
        )

    def flush(self, connection: Connection) -> None:
        """Until all is sent and something has come back, or the attack is over."""
        self.loop.run(30.0, lambda: not connection.outbox or bool(connection.closed))


def topics(it: Attacker) -> int:
    """Patterns of random `#`, `*` and words; a new key for each publish."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("t") + short("topic") + NO_ARGUMENTS)
    link.declare("matched", arguments={"x-max-length": 10})
    for _ in range(it.count(3000)):
        words = [it.dice.choice(("#", "*", "a", "b")) for _ in range(20)]
        pattern = short(".".join(words))
        link.call(1, 50, 20, bytes(2) + short("matched") + short("t") + pattern + NO_ARGUMENTS)
    it.begin()
    sent = 0
    while it.is_on() and not link.closed:
        key = ".".join(it.dice.choice("ab") for _ in range(30))
        it.push(link, publish_bytes(1, "t", key, b"x"))
        sent += 1
    return sent


def headers(it: Attacker) -> int:
    """Bindings with as many arguments as there may be, and messages that agree with all."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("h") + short("headers") + NO_ARGUMENTS)
    link.declare("matched", arguments={"x-max-length": 10})
    values: dict[str, str | int | bool] = {f"k{number}": number for number in range(250)}
    for number in range(it.count(390)):
        where = short("matched") + short("h") + short(f"{number}")
        link.call(1, 50, 20, bytes(2) + where + b"\x00" + table(values))
    it.begin()
    properties = struct.pack(">H", 0x2000) + table(values)
    message = method(1, 60, 40, bytes(2) + short("h") + short("") + b"\x00")
    message += frame(FRAME_HEADER, 1, struct.pack(">HHQ", 60, 0, 1) + properties)
    message += frame(FRAME_BODY, 1, b"x")
    sent = 0
    while it.is_on() and not link.closed:
        it.push(link, message)
        sent += 1
    return sent


def bodies(it: Attacker) -> int:
    """60 channels with 16 MiB each, one frame short."""
    channels = it.count(60)
    link = it.connect(channels)
    it.begin()
    piece = frame(FRAME_BODY, 1, b"z" * 131_000)[7:]
    sent = 0
    for number in range(1, channels + 1):
        head = method(number, 60, 40, bytes(2) + short("") + short("nowhere") + b"\x00")
        it.push(link, head + frame(FRAME_HEADER, number, struct.pack(">HHQH", 60, 0, 16 * MIB, 0)))
        for _ in range(16 * MIB // 131_000):
            if not it.is_on() or link.closed:
                return sent
            it.push(link, struct.pack(">BHI", FRAME_BODY, number, 131_000) + piece)
            sent += 1
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return sent


def questions(it: Attacker) -> int:
    """Every question at once, of a broker with many queues and connections."""
    link = it.connect()
    for number in range(it.count(20_000)):
        link.declare(f"asked.{number}")
    others = [it.connect() for _ in range(it.count(500))]
    it.begin()
    asked = 0
    while it.is_on() and not link.closed:
        questions: tuple[dict[str, object], ...] = (
            {"op": "why", "subject": "", "name": ""},
            {"op": "queues", "do": "list", "vhost": "/", "sort": "ready", "limit": 1000},
            {"op": "flow", "do": "accounts", "vhost": "", "limit": 1000},
            {"op": "flow", "do": "edges", "vhost": "", "limit": 1000},
            {"op": "status"},
            {"op": "queues", "do": "readers", "limit": 1000},
            {"op": "queues", "do": "list", "sort": "name", "limit": 10_000},
            {"op": "connections", "limit": 1000},
            {"op": "store", "limit": 1000},
        )
        for question in questions:
            try:
                ask(it.control, question)
            except Exception as refused:
                print(f"{question['op']}: {refused}", file=sys.stderr)
            asked += 1
    return asked + len(others)


def rights(it: Attacker) -> int:
    """What one user may do changes again and again, who has many connections with a consumer."""
    link = it.connect()
    link.declare("consumed")
    arguments = bytes(2) + short("consumed") + short("c") + b"\x02" + table({})
    others = [it.connect() for _ in range(it.count(1000))]
    for other in others:
        it.push(other, method(1, 60, 20, arguments))
    for other in others:
        it.flush(other)
    it.begin()
    changes = 0
    while it.is_on() and not link.closed:
        read = ("^consumed", ".*")[changes % 2]
        question: dict[str, object] = {"op": "permissions", "do": "set", "user": "guest"}
        question |= {"vhost": "/", "configure": ".*", "write": ".*", "read": f"{read}|^ping"}
        ask(it.control, question)
        changes += 1
        time.sleep(0.02)
    return changes


def consumers(it: Attacker) -> int:
    """Consumers on one queue, and all of them gone at once."""
    link = it.connect()
    link.declare("consumed")
    it.begin()
    made = 0
    while it.is_on() and made < it.count(60_000) and not link.closed:
        arguments = bytes(2) + short("consumed") + short(f"c{made}") + b"\x02" + table({})
        it.push(link, method(1, 60, 20, arguments))
        made += 1
    link.drop()
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return made


def declares(it: Attacker) -> int:
    """Queues, as many as come in."""
    link = it.connect()
    it.begin()
    made = 0
    while it.is_on() and made < it.count(300_000) and not link.closed:
        it.push(link, method(1, 50, 10, bytes(2) + short(f"d{made}") + b"\x10" + table({})))
        made += 1
    it.flush(link)
    return made


def exclusive(it: Attacker) -> int:
    """Exclusive queues that all end with their connection."""
    link = it.connect()
    made = 0
    for made in range(it.count(100_000)):
        it.push(link, method(1, 50, 10, bytes(2) + short(f"e{made}") + b"\x14" + table({})))
    it.flush(link)
    link.call(1, 50, 10, bytes(2) + short("e0") + b"\x05" + table({}))
    it.begin()
    link.drop()
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return made


def fanout(it: Attacker) -> int:
    """Persistent messages into durable queues, each with one publish."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("f") + short("fanout") + b"\x02" + table({}))
    for number in range(it.count(10_000)):
        name = f"f{number}"
        link.declare(name, durable=True, arguments={"x-max-length": 10})
        link.call(1, 50, 20, bytes(2) + short(name) + short("f") + short("") + NO_ARGUMENTS)
    confirms = it.connect()
    confirms.call(1, 85, 10, b"\x00")
    answered: list[bytes] = []
    confirms.handlers[(1, 60, 80)] = answered.append
    it.begin()
    sent = 0
    while it.is_on() and not confirms.closed:
        confirms.send(publish_bytes(1, "f", "", b"x" * 100, is_persistent=True))
        sent += 1
        it.loop.run(60.0, lambda: bool(answered) or bool(confirms.closed))
        answered.clear()
    return sent


def guessing(it: Attacker) -> int:
    """Wrong passwords, 50 sockets at a time."""
    it.begin()
    tried = 0
    while it.is_on():
        some: list[socket.socket] = []
        for _ in range(it.count(50)):
            try:
                sock = socket.create_connection(("127.0.0.1", it.port), 2.0)
                sock.sendall(b"AMQP\x00\x00\x09\x01")
                response = b"\x00guest\x00wrong"
                sock.sendall(
                    method(
                        0, 10, 11,
                        struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(response))
                        + response + short("en_US"),
                    )
                )  # fmt: skip
            except OSError:
                continue
            some.append(sock)
            tried += 1
        time.sleep(0.3)
        for sock in some:
            sock.close()
    return tried


def _filled(it: Attacker, link: Connection, queue: str, bits: int, **arguments: str | int) -> int:
    """A queue with very many small messages; how many. bits: of queue.declare."""
    declare = bytes(2) + short(queue) + bytes((bits,)) + table(arguments)
    link.call(1, 50, 10, declare)
    sent = it.count(1_000_000)
    publishes = publish_bytes(1, "", queue, b"x" * 16) * 500
    for _ in range(max(1, sent // 500)):
        it.push(link, publishes)
    it.flush(link)
    link.call(1, 50, 10, declare)
    return sent


def backlog(it: Attacker) -> int:
    """Backlogs of many small messages: one is purged, one deleted, one ends with its connection."""
    links = [it.connect() for _ in range(3)]
    sent = sum(
        _filled(it, link, queue, bits)
        for link, queue, bits in zip(links, ("purged", "deleted", "ended"), (0, 0, 2), strict=True)
    )
    it.begin()
    links[0].call(1, 50, 30, bytes(2) + short("purged") + b"\x00")
    links[1].call(1, 50, 40, bytes(2) + short("deleted") + b"\x00")
    links[2].drop()
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return sent


def bindings(it: Attacker) -> int:
    """One queue and one exchange with very many bindings, and both end."""
    link = it.connect()
    made = it.count(100_000)
    ends = (("t", "topic"), ("d", "direct"), ("gone", "topic"))
    for exchange, kind in ends:
        link.call(1, 40, 10, bytes(2) + short(exchange) + short(kind) + NO_ARGUMENTS)
    for queue in ("bound", "rest"):
        link.declare(queue)
    for number in range(made):
        exchange, queue = (("t", "bound"), ("d", "bound"), ("gone", "rest"))[number % 3]
        key = short(f"a{number}.b.c")
        where = bytes(2) + short(queue) + short(exchange) + key + b"\x01" + table({})
        it.push(link, method(1, 50, 20, where))
    it.flush(link)
    link.declare("rest")
    it.begin()
    link.call(1, 50, 40, bytes(2) + short("bound") + b"\x00")
    link.call(1, 40, 20, bytes(2) + short("gone") + b"\x00")
    it.loop.run(2.0)
    return made


def settles(it: Attacker) -> int:
    """A consumer has a whole backlog, gives it back at once, has it again, and acknowledges it."""
    link = it.connect()
    sent = _filled(it, link, "settled", 0)
    came: list[bytes] = []
    link.handlers[(1, 60, 60)] = came.append
    link.body_done[1] = lambda: None
    it.begin()
    consume = bytes(2) + short("settled") + short("c") + b"\x00" + table({})
    for settle in (
        method(1, 60, 120, struct.pack(">QB", 0, 3)),
        method(1, 60, 80, bytes(8) + b"\x01"),
    ):
        link.call(1, 60, 20, consume)
        it.loop.run(30.0, lambda: len(came) >= sent or bool(link.closed))
        link.call(1, 60, 30, short("c") + b"\x00")
        came.clear()
        it.push(link, settle)
        it.flush(link)
        link.call(1, 50, 10, bytes(2) + short("settled") + b"\x01" + table({}))
    it.loop.run(1.0)
    return sent


def channels(it: Attacker) -> int:
    """A channel whose consumer has a whole backlog is closed."""
    link = it.connect(2)
    sent = _filled(it, link, "held", 0)
    came: list[bytes] = []
    link.handlers[(2, 60, 60)] = came.append
    link.body_done[2] = lambda: None
    link.call(2, 60, 20, bytes(2) + short("held") + short("c") + b"\x00" + table({}))
    it.loop.run(60.0, lambda: len(came) >= sent or bool(link.closed))
    it.begin()
    link.call(2, 20, 40, bytes(2) + short("bye") + bytes(4))
    it.loop.run(2.0)
    return len(came)


def expiries(it: Attacker) -> int:
    """A backlog dies all at once, one has to become short, and one gets lifetimes."""
    link = it.connect()
    sent = _filled(it, link, "dying", 0, **{"x-message-ttl": round(it.seconds * 1000)})
    sent += _filled(it, link, "shortened", 0)
    sent += _filled(it, link, "shortlived", 0)
    it.begin()
    policies = {"^shortened$": {"max-length": 10}, "^shortlived$": {"message-ttl": 1000}}
    for pattern, definition in policies.items():
        policy: dict[str, object] = {"vhost": "/", "name": pattern[1:-1], "pattern": pattern}
        policy |= {"definition": definition, "apply-to": "queues", "priority": 0}
        ask(it.control, {"op": "policies", "do": "set", "policy": policy})
    it.loop.run(it.seconds + 3.0)
    return sent


def handshakes(it: Attacker) -> int:
    """500 handshakes of TLS a second: bytes that are none, one that does not go on, a whole one."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    it.begin()
    began = time.monotonic()
    made = 0
    waiting: list[socket.socket] = []
    while it.is_on():
        try:
            sock = socket.create_connection(("127.0.0.1", it.port + TLS_BEHIND), 2.0)
            if made % 3 == 0:
                sock.sendall(it.dice.randbytes(300))
            elif made % 3 == 1:
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                half = context.wrap_bio(incoming, outgoing)
                with contextlib.suppress(ssl.SSLWantReadError):
                    half.do_handshake()
                sock.sendall(outgoing.read())
            else:
                sock = context.wrap_socket(sock)
        except OSError:
            continue
        finally:
            made += 1
        waiting.append(sock)
        if len(waiting) > it.count(100):
            waiting.pop(0).close()
        time.sleep(max(0.0, began + made / 500 - time.monotonic()))
    return made


def _request(link: Connection, verb: str, arguments: dict[str, str | int | list[str]]) -> bytes:
    """Ask one of the requests beyond AMQP, and wait for its answer."""
    return link.call(1, 240, 10, short(verb) + table(arguments))


def _stage(link: Connection, it: Attacker, batch: int, count: int, queue: str) -> str:
    """Stage so many small messages; under which name."""
    begun: dict[str, str | int | list[str]] = {"app": "attack", "batch": batch}
    answer = _request(link, "transaction.begin", begun | {"max_bytes": 64 * MIB})
    # {"id": "..."}: length of the table, name, type, length of the text.
    size = struct.unpack_from(">I", answer, 8)[0]
    identity = answer[12 : 12 + size].decode()
    publishes = publish_bytes(1, "", queue, b"x", is_persistent=True) * 500
    for _ in range(max(1, count // 500)):
        it.push(link, publishes)
    _request(link, "transaction.stage", {"id": identity})
    return identity


def commits(it: Attacker) -> int:
    """Staged transactions as large as they may be, of small messages, committed together."""
    links = [it.connect() for _ in range(3)]
    links[0].declare("committed", durable=True)
    it.begin()
    made = 0
    while it.is_on() and not any(link.closed for link in links):
        ids = [_stage(link, it, made, it.count(300_000), "committed") for link in links]
        _request(links[0], "transaction.commit", {"app": "attack", "batch": made, "ids": ids})
        made += 1
        links[0].call(1, 50, 30, bytes(2) + short("committed") + b"\x00")
    return made


def rollbacks(it: Attacker) -> int:
    """The same, rolled back."""
    link = it.connect()
    link.declare("committed", durable=True)
    it.begin()
    made = 0
    while it.is_on() and not link.closed:
        _stage(link, it, made, it.count(300_000), "committed")
        _request(link, "transaction.rollback", {"app": "attack", "batch": made})
        made += 1
    return made


def leases(it: Attacker) -> int:
    """As many messages as one group may hold at a time are leased and settled, again and again."""
    link = it.connect()
    left = _filled(it, link, "leased", 2)
    it.begin()
    start = 0
    arguments: dict[str, str | int | list[str]] = {"queue": "leased", "group": "g"}
    while it.is_on() and not link.closed and left > 0:
        answer = _request(link, "lease.acquire", arguments | {"start": start})
        # A field of one name, one letter for its kind, and 64 or 32 bits.
        at = answer.index(b"\x03end") + 4
        start = struct.unpack_from(">q" if answer[at : at + 1] == b"l" else ">i", answer, at + 1)[0]
        left -= it.count(100_000)
    return start


def transactions(it: Attacker) -> int:
    """AMQP's own transactions, as large as they may be, committed and rolled back in turns."""
    link = it.connect()
    link.declare("in-tx", durable=True)
    link.call(1, 90, 10)
    it.begin()
    publishes = publish_bytes(1, "", "in-tx", b"x", is_persistent=True) * 500
    made = 0
    while it.is_on() and not link.closed:
        for _ in range(max(1, it.count(99_000) // 500)):
            it.push(link, publishes)
        link.call(1, 90, (20, 30)[made % 2])
        link.call(1, 50, 30, bytes(2) + short("in-tx") + b"\x00")
        made += 1
    return made


ATTACKS: Final[dict[str, Callable[[Attacker], int]]] = {
    one.__name__: one
    for one in (
        *(topics, headers, bodies, questions, rights, consumers, declares, exclusive, fanout),
        *(
            guessing,
            backlog,
            handshakes,
            commits,
            rollbacks,
            transactions,
            settles,
            channels,
            expiries,
            bindings,
            leases,
        ),
    )
}
