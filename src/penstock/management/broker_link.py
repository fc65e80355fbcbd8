"""Questions to the broker over its control socket, for many HTTP requests at once.

Listings are asked once for all who want the same within a short time: whoever polls a page of a
thousand queues from twenty browsers costs the broker one listing a second.
"""

import asyncio
import time
from typing import Any, Final, NamedTuple

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CONTROL_REQUEST_BYTES,
    MANAGEMENT_ASKERS,
    MANAGEMENT_LISTING_MS,
)
from penstock.management import missing
from penstock.management.errors import HttpFault

Row = dict[str, Any]
ANSWER_BYTES_MAX: Final = 1 << 30
TIMEOUT_S: Final = 60.0
PAGE_ROWS: Final = 2_000
"""Of listings."""
EMPTY_S: Final = 0.05
"""A listing that found nothing in this time is not kept, nor is one of a single object ever."""
UNAVAILABLE: Final = "unavailable"
"""As in server/control/control_socket."""
KEPT_MAX: Final = 256
"""Listings that are kept for those who ask again."""


class BrokerGone(OperatorError):
    """No broker answers at the control socket, or of several workers not the one that could."""


class Listing(NamedTuple):
    """parts: see management/missing."""

    rows: list[Row]
    parts: tuple[str, ...]


class BrokerLink:
    """path: of the control socket. Bound: MANAGEMENT_ASKERS questions at a time, others wait."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._turns = asyncio.Semaphore(MANAGEMENT_ASKERS.default)
        self._kept: dict[bytes, tuple[float, Listing]] = {}
        self._asking: dict[bytes, asyncio.Task[Listing]] = {}

    async def ask(self, request: Row, turns: asyncio.Semaphore | None = None) -> Row:
        """One question. turns: of what may take long, so that other questions need not wait for it.

        Raises: BrokerGone, OperatorError with the broker's words, HttpFault 413 for one that the
        broker would not read."""
        asked = msgspec.json.encode(request) + b"\n"
        if len(asked) > CONTROL_REQUEST_BYTES.default:
            said = f"as a question to the broker this has {len(asked)} bytes, more than "
            said += str(CONTROL_REQUEST_BYTES.default)
            raise HttpFault(413, "request_too_large", said)
        async with turns or self._turns:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    line = await self._exchange(asked)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                said = str(error) or type(error).__name__
                raise BrokerGone(f"no broker answers at {self.path}: {said}") from error
        if not line:
            raise BrokerGone(f"the broker at {self.path} closed the control socket")
        answer = msgspec.json.decode(line, type=dict[str, Any])
        if "error" in answer:
            said = str(answer["error"])
            raise BrokerGone(said) if answer.get(UNAVAILABLE) else OperatorError(said)
        missing.note(missing.parts_of(answer))
        return answer

    async def _exchange(self, line: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=ANSWER_BYTES_MAX)
        try:
            writer.write(line)
            await writer.drain()
            return await reader.readline()
        finally:
            writer.close()

    async def listing(self, what: str, **fields: object) -> list[Row]:
        """All rows of `what`; those of a moment ago if somebody has just asked for the same. Do
        not change them."""
        request: Row = {"op": "objects", "do": what, **fields}
        key = msgspec.json.encode(request)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            missing.note(kept[1].parts)
            return kept[1].rows
        asking = self._asking
        task = asking.get(key)
        if task is None:
            task = asyncio.create_task(self._list(key, request))
            asking[key] = task
            task.add_done_callback(lambda _: asking.pop(key, None))
        found = await asyncio.shield(task)
        missing.note(found.parts)
        return found.rows

    async def pages(self, request: Row, key: str) -> list[Row]:
        """All rows that the answers hold under `key`, page after page. Raises: as `ask`."""
        return (await self._pages(request, key)).rows

    async def _pages(self, request: Row, key: str) -> Listing:
        found: list[Row] = []
        parts: dict[str, None] = {}
        after = ""
        while True:
            answer = await self.ask({**request, "limit": PAGE_ROWS, "after": after})
            found += answer[key]
            parts.update(dict.fromkeys(missing.parts_of(answer)))
            after = answer.get("next", "")
            if not after:
                return Listing(found, tuple(parts))

    async def node(self) -> Row:
        """The node and its totals, as of a moment ago at most."""
        return (await self.listing("node"))[0]

    async def _list(self, key: bytes, request: Row) -> Listing:
        began, kept = time.monotonic(), self._kept
        items = await self._pages(request, "items")
        took_s = time.monotonic() - began
        if not items.rows and ("name" in request or took_s < EMPTY_S):
            # Who waits for an object sees it as soon as it is there, and asking costs little.
            return items
        # A long listing is kept longer, so that the broker spends a small share of its time on it.
        keep_s = max(MANAGEMENT_LISTING_MS.default / 1000, took_s * 5)
        if len(kept) >= KEPT_MAX:
            now = time.monotonic()
            for one in [one for one, (until, _) in kept.items() if until <= now]:
                del kept[one]
            while len(kept) >= KEPT_MAX:
                del kept[next(iter(kept))]
        kept[key] = (began + took_s + keep_s, items)
        return items

    def forget(self) -> None:
        """Something was changed: whoever asks now wants to see it. What is being asked may be of
        before, so it is for those alone who wait for it."""
        self._kept = {}
        self._asking = {}
