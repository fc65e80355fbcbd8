"""The control socket: a local stream socket that answers questions about the running broker.

One JSON object per line in, one out: {"op": "why", "kind": "connection", "name": "..."}.
The file is readable by its owner alone. Requests and clients are bounded, see limits.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import CONTROL_CLIENTS, CONTROL_REQUEST_BYTES

ANSWER_S = 10.0

Answer = Callable[[dict[str, object]], dict[str, object]]


class ControlSocket:
    """Listens at `path`; `answer` is called on the loop and must be quick."""

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
            async with asyncio.timeout(ANSWER_S):
                while line := await reader.readline():
                    writer.write(self._reply(line))
                    await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            self.clients -= 1
            writer.close()

    def _reply(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError as error:
            return msgspec.json.encode({"error": f"not a JSON object: {error}"}) + b"\n"
        try:
            return msgspec.json.encode(self.answer(request)) + b"\n"
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
