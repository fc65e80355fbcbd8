"""Questions to workers over their own control sockets, a few of each at a time.

A connection is kept for a while after an answer, shorter than the worker keeps it, so none is found
closed when the next question is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from penstock.base.errors import OperatorError, UnavailableError
from penstock.server.control.control_client import NOBODY_LEADS
from penstock.server.control.control_socket import ASKED_BY, ASKER, IN_LINES, LINES

Row = dict[str, Any]
T = TypeVar("T")
ANSWER_S: Final = 45.0
"""Below what commands and the management process wait, which then hear which worker it was."""
PATIENCE_S: Final = MappingProxyType({"definitions": 110.0})
"""Of questions that may take longer, by `op`."""
CONNECTIONS: Final = 8
"""To one worker, which takes control_clients of them; other questions wait for their turn."""
KEPT_S: Final = 5.0
"""The worker ends a connection that is silent for 10 s."""
KEPT: Final = 4
LINE_BYTES_MAX: Final = 1 << 30
FAULT: Final = b'{"error":'
SLICE_LINES: Final = 8
KEYS: Final = "keys"
"""Lists of this name are read, others are handed on as they came."""


class WorkerGone(UnavailableError):
    """A worker does not answer."""

    def __init__(self, worker: int, why: str) -> None:
        self.worker = worker
        self.why = why
        super().__init__(
            f"worker {worker} does not answer ({why}); one that has ended is started again by "
            "itself: see the log, and try again"
        )


class _Line:
    """An open connection. until_s: of the loop's time, for how long it may be used again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.until_s = 0.0

    async def read(self) -> bytes:
        """One line without its end. Raises: EOFError, OperatorError with a refusal."""
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it ended before it had answered")
        if line.startswith(FAULT):
            raise OperatorError(str(msgspec.json.decode(line)["error"]))
        return line[:-1]


class WorkerClient:
    """paths: of the workers' control sockets, by number. Raises: OperatorError with the words of a
    worker that refuses, WorkerGone for one that does not answer in time."""

    def __init__(self, paths: Sequence[str], answer_s: float = ANSWER_S) -> None:
        self.paths = tuple(paths)
        self.answer_s = answer_s
        self._turns = [asyncio.Semaphore(CONNECTIONS) for _ in self.paths]
        self._kept: list[list[_Line]] = [[] for _ in self.paths]

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self.paths)

    async def ask(self, worker: int, fields: Mapping[str, object]) -> Row:
        """The answer, read."""
        found: Row = msgspec.json.decode(await self._exchange(worker, fields, _Line.read))
        return found

    async def ask_raw(self, worker: int, fields: Mapping[str, object]) -> msgspec.Raw:
        """The answer as it came."""
        return msgspec.Raw(await self._exchange(worker, fields, _Line.read))

    async def ask_rows(self, worker: int, fields: Mapping[str, object]) -> Row:
        """The answer, its lists with rows as they came. What is long is read in steps."""
        return await self._exchange(worker, {**fields, IN_LINES: True}, _read_rows)

    async def _exchange(
        self,
        worker: int,
        fields: Mapping[str, object],
        read: Callable[[_Line], Awaitable[T]],
    ) -> T:
        who = ASKER.get()
        asked = msgspec.json.encode({**fields, ASKED_BY: who} if who else fields) + b"\n"
        patience_s = max(self.answer_s, PATIENCE_S.get(str(fields.get("op")), 0.0))
        try:
            async with asyncio.timeout(patience_s), self._turns[worker]:
                line = await self._line(worker)
                is_whole = False
                try:
                    line.writer.write(asked)
                    await line.writer.drain()
                    found = await read(line)
                    is_whole = True
                    return found
                except OperatorError as error:
                    is_whole = True
                    if str(error) == NOBODY_LEADS:
                        raise WorkerGone(worker, NOBODY_LEADS) from error
                    raise
                finally:
                    self._put_back(worker, line, is_whole)
        except TimeoutError:
            raise WorkerGone(worker, f"nothing in {patience_s:g} s") from None
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            raise WorkerGone(worker, f"{self.paths[worker]}: {_words(error)}") from error

    async def _line(self, worker: int) -> _Line:
        now_s = asyncio.get_running_loop().time()
        kept = self._kept[worker]
        while kept:
            line = kept.pop()
            if now_s < line.until_s and not line.reader.at_eof():
                return line
            line.writer.close()
        path = self.paths[worker]
        return _Line(*await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX))

    def _put_back(self, worker: int, line: _Line, is_whole: bool) -> None:
        """is_whole: the answer was read to its end."""
        kept = self._kept[worker]
        if is_whole and len(kept) < KEPT:
            line.until_s = asyncio.get_running_loop().time() + KEPT_S
            kept.append(line)
        else:
            line.writer.close()

    def close(self) -> None:
        """Those who wait for an answer are not ended by it."""
        for kept in self._kept:
            while kept:
                kept.pop().writer.close()


def _words(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) else str(error)
    return told or str(error) or type(error).__name__


async def _read_rows(line: _Line) -> Row:
    """An answer in lines, see control_socket."""
    head: Row = msgspec.json.decode(await line.read())
    paths: list[list[str]] = head.pop(LINES)
    for number, path in enumerate(paths, 1):
        rows: list[Any]
        text = await line.reader.readline()
        if path[0] == KEYS:
            rows = msgspec.json.decode(text)
        else:
            rows = msgspec.json.decode(text, type=list[msgspec.Raw])
        place = head
        for name in path[:-1]:
            place = place[name]
        place[path[-1]].extend(rows)
        if number % SLICE_LINES == 0:
            await asyncio.sleep(0)
    return head
