"""The control socket: a local stream socket that answers questions about the running broker.

One JSON object per line in, one out: {"op": "why", "kind": "connection", "name": "..."}.
The file is readable by its owner alone. Requests and clients are bounded, see limits. What may be
long is handed on as it came (msgspec.Raw), to be read in steps of a few milliseconds. A question
whose asker has hung up is not answered to its end; a change is made to its end.

Who says "in_lines": true as well has the answer in several lines: the first is the answer without
its lists, with `rows_of_lines`, which says of which list each of the following lines holds some
rows. So neither end has to read or write a long list in one go.
"""

import asyncio
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from struct import calcsize, unpack
from typing import Final, TypeVar

import msgspec

from penstock.base.errors import OperatorError, UnavailableError
from penstock.base.limits import CONTROL_CLIENTS, CONTROL_REQUEST_BYTES
from penstock.broker.actors.cooperative import Steps
from penstock.server.control.control_client import is_heard

SLICE_NS: Final = 500_000
"""Of an answer at a time: a client that waits for a message waits for no more of it."""
ROWS: Final = 64
"""Of a long list that are written as JSON at a time."""
PIECE_BYTES: Final = 131_072
"""Of an answer that are written at a time."""
GONE_LOOK_S: Final = 0.1
"""How often to look whether the asker is there, where others make the answer."""
T = TypeVar("T")


class AskerGone(Exception):
    """Whoever asked has hung up."""


def _nobody_goes() -> bool:
    return False


async def in_slices(steps: Steps[T], is_gone: Callable[[], bool] = _nobody_goes) -> T:
    """Run `steps` to their end, with a rest when SLICE_NS are over or a step wants one; is_gone: is
    asked after each rest whether nobody wants the end any more. The caller may give up, too; the
    steps done stay done. Raises: AskerGone."""
    while True:
        end_ns = time.monotonic_ns() + SLICE_NS
        rest_s = 0.0
        try:
            while rest_s <= 0.0:
                rest_s = next(steps)
                if time.monotonic_ns() >= end_ns:
                    break
        except StopIteration as end:
            found: T = end.value
            return found
        await asyncio.sleep(rest_s)
        if is_gone():
            steps.close()
            raise AskerGone


async def while_asked(answer: Awaitable[T], is_gone: Callable[[], bool] = _nobody_goes) -> T:
    """What others find out; given up when `is_gone`. Raises: AskerGone."""
    task = asyncio.ensure_future(answer)
    try:
        while not (await asyncio.wait((task,), timeout=GONE_LOOK_S))[0]:
            if is_gone():
                raise AskerGone
        return task.result()
    finally:
        task.cancel()


def json_steps(value: object) -> Steps[list[bytes]]:
    """`value` as JSON, written in steps, in pieces of a good size to be sent."""
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    pieces: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for part in _parts(value):
        parts.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
        yield 0.0
    pieces.append(b"".join(parts))
    return pieces


def line_steps(value: object) -> Steps[list[bytes]]:
    """`value` in several lines, the last of them without its end, written in steps."""
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    assert isinstance(value, dict), "an answer is an object"
    head: dict[str, object] = {}
    lists: list[tuple[list[str], list[object]]] = []
    for key, one in value.items():
        if isinstance(one, dict):
            lists += [([key, name], sub) for name, sub in one.items() if isinstance(sub, list)]
            one = {name: [] if isinstance(sub, list) else sub for name, sub in one.items()}
        elif isinstance(one, list):
            lists.append(([key], one))
            one = []
        head[key] = one
    paths: list[list[str]] = []
    lines: list[bytes] = []
    for path, rows in lists:
        for start in range(0, len(rows), ROWS):
            line: list[bytes] = []
            for part in _parts(rows[start : start + ROWS]):
                line.append(part)
                yield 0.0
            paths.append(path)
            lines.append(b"\n" + b"".join(line))
    head[LINES] = paths
    return [msgspec.json.encode(head), *lines]


def _parts(value: object) -> Iterator[bytes]:
    """Objects that hold lists are taken apart, and long lists; the rest is written whole."""
    if isinstance(value, list) and len(value) > ROWS:
        for start in range(0, len(value), ROWS):
            yield b"," if start else b"["
            yield msgspec.json.encode(value[start : start + ROWS])[1:-1]
        yield b"]"
    elif isinstance(value, list) and any(_is_long(one) for one in value):
        mark = b"["
        for one in value:
            yield mark
            yield from _parts(one)
            mark = b","
        yield b"]"
    elif isinstance(value, dict) and len(value) > ROWS:
        mark = b"{"
        items = iter(value.items())
        while some := dict(islice(items, ROWS)):
            yield mark + msgspec.json.encode(some)[1:-1]
            mark = b","
        yield b"}"
    elif isinstance(value, dict) and any(isinstance(one, list | dict) for one in value.values()):
        mark = b"{"
        for key, one in value.items():
            yield mark + msgspec.json.encode(key) + b":"
            yield from _parts(one)
            mark = b","
        yield b"}"
    else:
        yield msgspec.json.encode(value)


def _is_long(value: object) -> bool:
    """Whether it is an object with a long list in it."""
    return isinstance(value, dict) and any(
        isinstance(one, list | dict) and len(one) > ROWS for one in value.values()
    )


ANSWER_S = 10.0
"""For a question to come, and for its answer to be taken; making it may take longer."""
IN_LINES: Final = "in_lines"
LINES: Final = "rows_of_lines"
"""Said in a question, and in its answer: see above."""
ASKED_BY: Final = "asked_by"
"""In a question: who has asked the one who asks, for the audit log."""
ASKER: ContextVar[str] = ContextVar("asker", default="")
"""Who has asked what is being answered."""
UNAVAILABLE: Final = "unavailable"
"""Beside an error: nothing is wrong with the question."""
UNREAD: Final = ("definitions",)
"""Values of a request that may be long."""

Reply = (
    dict[str, object]
    | msgspec.Struct
    | Steps[dict[str, object]]
    | Steps[object]
    | Awaitable[object]
)
"""Each is written as one JSON object. What has to be waited for is no longer waited for once its
asker has gone, unless it is a change."""
Answer = Callable[[dict[str, object]], Reply]
Told = Callable[[dict[str, object], str], None]
"""Called with a request that was answered, and who asked."""
IsChange = Callable[[dict[str, object]], bool]
"""Whether a request changes something, so that it is done to its end whoever has hung up."""


Adopt = Callable[[socket.socket, str], None]
"""Called with a socket, and whose it is."""


class HungUp:
    """Whether the other end of a socket has been closed, not only for writing. One system call."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._poll = select.poll()
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            self._poll.register(sock.fileno(), 0)

    def __call__(self) -> bool:
        return bool(self._poll.poll(0))


def _who(writer: asyncio.StreamWriter) -> str:
    """The user of this machine who asks, by number, "" where the system does not say."""
    sock = writer.get_extra_info("socket")
    option = getattr(socket, "SO_PEERCRED", None)
    if sock is None or option is None:
        return ""
    _, uid, _ = unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, calcsize("3i")))
    return f"uid {uid}"


class ControlSocket:
    """Listens at `path`; `answer` is called on the loop and must be quick, answer in steps,
    or give something to wait for."""

    def __init__(
        self,
        path: str,
        answer: Answer,
        told: Told | None = None,
        is_change: IsChange = lambda _: False,
        adopt: Adopt | None = None,
    ) -> None:
        """adopt: takes the socket of who asks {"op": "amqp"}, and speaks AMQP with it from then on;
        None where nobody does."""
        self.adopt = adopt
        self.is_change = is_change
        self.path = Path(path)
        self.answer = answer
        self.told = told
        self.server: asyncio.Server | None = None
        self.clients = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises: OperatorError when the path cannot be used."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.path.is_socket():
                if is_heard(str(self.path)):
                    raise OperatorError(
                        f"another broker is asked at the control socket {self.path}; stop it, or "
                        "choose another place with --control"
                    )
                self.path.unlink()
            before = os.umask(0o177)
            try:
                self.server = await asyncio.start_unix_server(
                    self._serve, str(self.path), limit=CONTROL_REQUEST_BYTES.default
                )
            finally:
                os.umask(before)
        except OSError as error:
            raise OperatorError(
                f"cannot make the control socket {self.path}: {error.strerror or error}; choose "
                "another place with --control"
            ) from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients += 1
        task = asyncio.current_task()
        assert task is not None, "the server has made it"
        self._serving.add(task)
        try:
            if self.clients > CONTROL_CLIENTS.default:
                return
            async with asyncio.timeout(ANSWER_S) as patience:
                while line := await reader.readline():
                    patience.reschedule(None)
                    if self.adopt is not None and _is_amqp(line):
                        await self._hand_over(writer, self.adopt)
                        return
                    reply = await self._reply(line, _who(writer), HungUp(writer))
                    patience.reschedule(asyncio.get_running_loop().time() + ANSWER_S)
                    for piece in reply:
                        writer.write(piece)
                        await writer.drain()
        except (AskerGone, OSError, TimeoutError, ValueError):
            return
        except asyncio.CancelledError:
            # Python 3.11 reports a server's task that was cancelled as a fault.
            if self.server is not None:
                raise
        finally:
            self.clients -= 1
            self._serving.discard(task)
            writer.close()

    async def _hand_over(self, writer: asyncio.StreamWriter, adopt: Adopt) -> None:
        """The client says nothing before it is told that AMQP is spoken now."""
        writer.write(b'{"said":"AMQP"}\n')
        await writer.drain()
        sock = writer.get_extra_info("socket")
        adopt(socket.socket(fileno=os.dup(sock.fileno())), _who(writer) or "operator")

    async def _reply(self, line: bytes, who: str, has_gone: Callable[[], bool]) -> list[bytes]:
        """In pieces. Raises: AskerGone."""
        found: dict[str, object]
        try:
            request = _request(line)
            asked_by = request.pop(ASKED_BY, who)
            # Whoever has the same rights as this broker may speak for others.
            who = str(asked_by) if who == f"uid {os.getuid()}" else who
            ASKER.set(who)
            reply = await self._written(request, has_gone)
            if self.told is not None:
                self.told(request, who)
            return [*reply, b"\n"]
        except AskerGone:
            raise
        except UnavailableError as error:
            found = {"error": str(error), UNAVAILABLE: True}
        except OperatorError as error:
            found = {"error": str(error)}
        except Exception as error:
            found = {"error": f"internal error while answering: {type(error).__name__}: {error}"}
        return [msgspec.json.encode(found) + b"\n"]

    async def _written(
        self, request: dict[str, object], has_gone: Callable[[], bool]
    ) -> list[bytes]:
        """Raises: AskerGone."""
        in_lines = request.pop(IN_LINES, None) is True
        answer: object = self.answer(request)
        until = _nobody_goes if self.is_change(request) else has_gone
        if isinstance(answer, Generator):
            answer = await in_slices(answer, until)
        elif isinstance(answer, Awaitable):
            answer = await while_asked(answer, until)
        elif not in_lines:
            return [msgspec.json.encode(answer)]
        return await in_slices(line_steps(answer) if in_lines else json_steps(answer), until)

    async def close(self) -> None:
        """Whoever asks has no answer any more."""
        if self.server is not None:
            self.server.close()
            self.server = None
            self.path.unlink(missing_ok=True)
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)


def _is_amqp(line: bytes) -> bool:
    return b'"amqp"' in line and line.strip() == b'{"op":"amqp"}'


def _request(line: bytes) -> dict[str, object]:
    """Raises: OperatorError for what is no JSON object."""
    try:
        return {
            key: value if key in UNREAD else msgspec.json.decode(value)
            for key, value in msgspec.json.decode(line, type=dict[str, msgspec.Raw]).items()
        }
    except msgspec.DecodeError as error:
        raise OperatorError(f"not a JSON object: {error}") from error
