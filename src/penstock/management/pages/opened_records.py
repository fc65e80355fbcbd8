"""Flight records that are looked at on pages, as `penstock replay` looks at files.

A record is fetched from the broker in parts, and read in a thread beside the requests. Few are
kept, those asked for last; of the broker nothing is asked but its size and its parts.
"""

import asyncio
from base64 import b64decode
from typing import Final

from penstock.base.errors import OperatorError
from penstock.explain.asking import Question, WhyAnswer, ask_why, until_ns
from penstock.explain.graph_extension import beyond
from penstock.explain.naming import Names, named
from penstock.explain.render import event_line
from penstock.explain.summary import summary, whole_windows
from penstock.management.broker_link import BrokerLink, Row
from penstock.management.errors import HttpFault
from penstock.management.pages.flow_map import FlowMap
from penstock.management.pages.past_map import past_map
from penstock.telemetry.record_file import FlightRecord, decode_packed

OPENED_MAX: Final = 2
"""Records that lie in memory, read."""
OPENED_BYTES_MAX: Final = 16_777_216
"""Of one, packed: a larger one is for `penstock replay`."""
LOOKS: Final = 200
LOOK_S: Final = 0.1
"""How often, and after how long, it is asked whether a record has been written."""
FIRST_FILE: Final = 900_000_000
"""Numbers from here on are of files; a broker's own records never get as far."""
FILES_MAX: Final = 2
"""Files that are open, of all people together."""
FILE_UNPACKED_MAX: Final = 134_217_728
"""Bytes that a file may unpack to, whoever has made it."""
EVENTS_SHOWN: Final = 200
SUMMARY_COLUMNS: Final = 110
PAST_END: Final = 1 << 53
"""An offset behind the end of every record: the answer is its size alone."""


class Records:
    """Records that are open. Bounds: OPENED_MAX, and FILES_MAX from files; the one that was asked
    for longest ago goes."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link
        self._opened: dict[tuple[int, int], asyncio.Task[FlightRecord]] = {}
        self._files: dict[int, FlightRecord] = {}
        self._next_file = FIRST_FILE
        # The reading of one history by two threads is never tried.
        self._turn = asyncio.Lock()

    async def size(self, number: int) -> int:
        """Bytes of a record, as soon as it is written. Raises: OperatorError."""
        for _ in range(LOOKS):
            answer = await self._part(number, PAST_END)
            if answer["is_ready"]:
                return int(answer["bytes"])
            await asyncio.sleep(LOOK_S)
        raise OperatorError(f"record {number} is still being written; look again in a moment")

    async def data(self, number: int, size: int) -> bytes:
        """The file of a record, packed."""
        data = bytearray()
        while len(data) < size:
            part = b64decode(str((await self._part(number, len(data))).get("data", "")))
            if not part:
                raise OperatorError(f"record {number} is gone; the broker keeps few of them")
            data += part
        return bytes(data)

    async def open_file(self, data: bytes) -> int:
        """The number under which the record of a file is open now. Raises: OperatorError for what
        is no whole record."""
        async with self._turn:
            record = await asyncio.to_thread(decode_packed, data, FILE_UNPACKED_MAX)
        number, self._next_file = self._next_file, self._next_file + 1
        self._files[number] = record
        for old in list(self._files)[:-FILES_MAX]:
            del self._files[old]
        return number

    async def opened(self, number: int) -> FlightRecord:
        """One that the broker keeps no more is still shown while it lies here. Raises:
        OperatorError, HttpFault."""
        if number >= FIRST_FILE:
            record = self._files.pop(number, None)
            if record is None:
                raise OperatorError("this file is not open any more; choose it again on Records")
            self._files[number] = record
            return record
        try:
            size = await self.size(number)
        except OperatorError:
            left = [key for key in self._opened if key[0] == number]
            if not left:
                raise
            size = left[-1][1]
        if size > OPENED_BYTES_MAX:
            raise HttpFault(
                413,
                "too_large",
                f"record {number} has {size} bytes, and a page opens {OPENED_BYTES_MAX}; "
                "download it, and look at it with: penstock replay FILE",
            )
        key = (number, size)
        task = self._opened.pop(key, None)
        if task is None or (task.done() and task.exception() is not None):
            task = asyncio.create_task(self._open(number, size))
        self._opened[key] = task
        for old in list(self._opened)[:-OPENED_MAX]:
            del self._opened[old]
        return await asyncio.shield(task)

    async def why(self, record: FlightRecord, question: Question) -> WhyAnswer:
        """What `why` would have said. Raises: OperatorError."""
        async with self._turn:
            return await asyncio.to_thread(ask_why, record.history, question)

    async def map(self, record: FlightRecord, window_s: float, ago_s: float) -> FlowMap:
        """What moved then, and what waited. Raises: OperatorError."""
        async with self._turn:
            return await asyncio.to_thread(_map, record, window_s, ago_s)

    async def told(self, record: FlightRecord) -> tuple[str, list[str]]:
        """The summary, and the last events, the newest first."""
        async with self._turn:
            return await asyncio.to_thread(_told, record)

    async def _open(self, number: int, size: int) -> FlightRecord:
        return await asyncio.to_thread(decode_packed, await self.data(number, size))

    async def _part(self, number: int, offset: int) -> Row:
        request = {"op": "record", "do": "part", "number": number, "offset": offset}
        return await self._link.ask(request)


def _map(record: FlightRecord, window_s: float, ago_s: float) -> FlowMap:
    history = record.history
    windows = named(beyond(history.over(window_s, until_ns(history, ago_s))))
    told = ask_why(history, Question("publish", "", window_s, ago_s)).explanation
    causes = told.get("causes", [])
    assert isinstance(causes, list | tuple), "an explanation has some"
    return past_map(windows, list(causes))


def _told(record: FlightRecord) -> tuple[str, list[str]]:
    names = Names(whole_windows(record))
    late = record.events[: -EVENTS_SHOWN - 1 : -1]
    lines = [event_line(event, record.wall_at(event.t_ns), names) for event in late]
    return summary(record, SUMMARY_COLUMNS), lines
