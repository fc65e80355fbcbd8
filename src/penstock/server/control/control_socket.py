"""The control socket: a local stream socket that answers questions about the running broker.

One JSON object per line in, one out: {"op": "why", "kind": "connection", "name": "..."}.
The file is readable by its owner alone. Requests and clients are bounded, see limits. What may be
long reaches whoever answers as it came (msgspec.Raw), to be read in steps.
"""

import asyncio
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import CONTROL_CLIENTS, CONTROL_REQUEST_BYTES
from penstock.broker.actors.steps import Steps
from penstock.server.control.slices import in_slices, json_steps

ANSWER_S = 10.0
"""For a question to come, and for its answer to be taken; making it may take longer."""
UNREAD: Final = ("definitions",)
"""Values of a request that may be long."""

Reply = dict[str, object] | msgspec.Struct | Steps[dict[str, object]]
"""Each is written as one JSON object."""
Answer = Callable[[dict[str, object]], Reply]


class ControlSocket:
    """Listens at `path`; `answer` is called on the loop and must be quick, or answer in steps."""

    def __init__(self, path: str, answer: Answer) -> None:
        self.path = Path(path)
        self.answer = answer
        self.server: asyncio.Server | None = None
        self.clients = 0

    async def start(self) -> None:
        """Raises: OperatorError when the path cannot be used."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.path.is_socket():
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
        try:
            if self.clients > CONTROL_CLIENTS.default:
                return
            async with asyncio.timeout(ANSWER_S) as patience:
                while line := await reader.readline():
                    patience.reschedule(None)
                    reply = await self._reply(line)
                    patience.reschedule(asyncio.get_running_loop().time() + ANSWER_S)
                    writer.write(reply)
                    await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            self.clients -= 1
            writer.close()

    async def _reply(self, line: bytes) -> bytes:
        try:
            request = _request(line)
        except msgspec.DecodeError as error:
            return msgspec.json.encode({"error": f"not a JSON object: {error}"}) + b"\n"
        try:
            answer = self.answer(request)
            if isinstance(answer, Generator):
                return await in_slices(json_steps(await in_slices(answer))) + b"\n"
            return msgspec.json.encode(answer) + b"\n"
        except OperatorError as error:
            return msgspec.json.encode({"error": str(error)}) + b"\n"
        except Exception as error:
            text = f"internal error while answering: {type(error).__name__}: {error}"
            return msgspec.json.encode({"error": text}) + b"\n"

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None
            self.path.unlink(missing_ok=True)


def _request(line: bytes) -> dict[str, object]:
    """Raises: msgspec.DecodeError."""
    return {
        key: value if key in UNREAD else msgspec.json.decode(value)
        for key, value in msgspec.json.decode(line, type=dict[str, msgspec.Raw]).items()
    }
