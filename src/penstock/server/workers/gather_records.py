"""Flight records, events and the log of all workers.

A record is one worker's: what it explains is in one virtual host. Its number among all is that of
its worker times the number of workers, plus the worker's. Events and lines of the log are merged by
time; where the next answer goes on is a place at each worker, `120,45`.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.server.control.control_socket import in_slices
from penstock.server.control.questions_log import LINES_MAX
from penstock.server.control.questions_record import EVENTS_MAX
from penstock.server.workers.gather_sums import Rule, added, least, merged, most
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way, with_missing
from penstock.server.workers.worker_client import WorkerGone

STEP_ROWS: Final = 64
INCIDENTS: Final = "incidents"
STATUS: Final[Mapping[str, Rule]] = {
    "events_kept": added,
    "events_max": added,
    "events_dropped": added,
    "events_s": most,
    "history_s": least,
    "actors": added,
    "rounds": most,
    "rounds_skipped": added,
    "longest_slice_ms": most,
}


class RecordList(Way):
    """The recorder's state where it is asked for, and what it has kept by itself."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [fields] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask)
        count = everybody.count
        rows: list[Row] = []
        for worker, answer in answers.items():
            for row in answer[INCIDENTS]:
                more = {} if count == 1 else {"worker": worker}
                rows.append({**row, "number": row["number"] * count + worker, **more})
        if count > 1:
            rows.sort(key=itemgetter("wall_ns"))
        return with_missing(merged(list(answers.values()), STATUS) | {INCIDENTS: rows}, missing)


class RecordSave(Way):
    """One of each worker, or the `incident` that is named. Fails where a worker is missing."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        count = everybody.count
        incident = fields.get("incident")
        if isinstance(incident, int):
            worker = incident % count
            of_worker = {**fields, "incident": incident // count}
            try:
                number = (await everybody.workers.ask(worker, of_worker))["number"]
            except WorkerGone:
                raise
            except OperatorError as error:
                if count == 1:
                    raise
                # It knows its own numbers only.
                raise OperatorError(
                    f"no flight record {incident} is kept; `penstock record list` lists them"
                ) from error
            return {"number": number * count + worker}
        numbers = [
            one["number"] * count + worker
            for worker, one in enumerate(await everybody.each(fields))
        ]
        if count == 1:
            return {"number": numbers[0]}
        records = [{"worker": worker, "number": number} for worker, number in enumerate(numbers)]
        return {"number": numbers[0], "records": records}


class RecordPart(Way):
    """Of the worker that has the record."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        number = fields.get("number")
        if not isinstance(number, int):
            return await everybody.workers.ask_raw(0, fields)
        worker = number % everybody.count
        of_worker = {**fields, "number": number // everybody.count}
        return await everybody.workers.ask_raw(worker, of_worker)


class ByTime(Way):
    """rows: the field with rows, the oldest first; time_of: of a row; rows_max: what a worker
    answers at most; last: how many of the past are meant unless it is said; besides: fields with
    one element for each row; is_marked: rows say whose they are. `worker` asks one of them."""

    def __init__(
        self,
        rows: str,
        time_of: Callable[[Row], Any],
        rows_max: int,
        last: int,
        besides: Sequence[str] = (),
        is_marked: bool = False,
    ) -> None:
        self.rows = rows
        self.time_of = time_of
        self.rows_max = rows_max
        self.last = last
        self.besides = besides
        self.is_marked = is_marked

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        count = everybody.count
        if count == 1:
            return await everybody.workers.ask_raw(0, fields)
        one = fields.get("worker")
        if one is not None:
            if not isinstance(one, int) or not 0 <= one < count:
                raise OperatorError(f"worker = {one!r}: must be 0..{count - 1}")
            return await everybody.workers.ask_raw(one, fields)
        since = fields.get("since")
        places = None if since is None else _places(since, count)
        asked = [
            {**fields} if places is None else {**fields, "since": places[worker]}
            for worker in range(count)
        ]
        answers, missing = await everybody.there(asked, everybody.workers.ask_rows)
        last = fields.get("last", self.last) if places is None else 0
        most = min(self.rows_max, fields.get("limit", self.rows_max))
        # More than there are in one answer are asked for one after the other.
        most = most if places is not None or last > most else 1 << 62
        found = await in_slices(self._merged(answers, last, most))
        following = [answers[one]["next"] if one in answers else -1 for one in range(count)]
        for worker, seq in found.pop("begun").items():
            following[worker] = seq
        if places is not None:
            both = zip(following, places, strict=True)
            following = [old if new < 0 else new for new, old in both]
        found["next"] = ",".join(str(max(0, one)) for one in following)
        return with_missing(found, missing)

    def _merged(self, answers: Mapping[int, Row], last: int, rows_max: int) -> Steps[Row]:
        """last: the newest so many, 0 for all; rows_max: a worker that answers so many has more,
        and what others have behind these is left for the next answer. begun: by worker, the first
        row that is left."""
        sides: list[list[tuple[Any, int, tuple[Any, ...]]]] = []
        ends: list[Any] = []
        for worker, answer in answers.items():
            side = []
            lists = zip(*(answer[name] for name in (self.rows, *self.besides)), strict=True)
            for row, *more in lists:
                read = msgspec.json.decode(row)
                side.append((self.time_of(read), worker, (read, *map(msgspec.json.decode, more))))
                if len(side) % STEP_ROWS == 0:
                    yield 0.0
            sides.append(side)
            if len(side) >= rows_max:
                ends.append(side[-1][0])
        end = min(ends, default=None)
        rows: list[tuple[Any, ...]] = []
        begun: dict[int, int] = {}
        for at, worker, row in merge(*sides, key=itemgetter(0, 1)):
            if end is not None and at > end:
                begun.setdefault(worker, row[0]["seq"])
                continue
            if self.is_marked:
                row[0]["worker"] = worker
            rows.append(row)
            if len(rows) % STEP_ROWS == 0:
                yield 0.0
        if last > 0 and not ends:
            rows = rows[max(0, len(rows) - last) :]
        found = {
            name: [row[at] for row in rows] for at, name in enumerate((self.rows, *self.besides))
        }
        missed = [one["missed"] for one in answers.values() if "missed" in one]
        return found | ({"missed": sum(missed)} if missed else {}) | {"begun": begun}


def _places(since: object, count: int) -> list[int]:
    """Raises: OperatorError."""
    parts = str(since).split(",")
    if parts == ["0"]:
        return [0] * count
    if len(parts) != count or not all(one.isascii() and one.isdecimal() for one in parts):
        raise OperatorError(
            f"since = {str(since)[:40]!r} is not what an answer of {count} workers called `next`; "
            "begin anew without it"
        )
    return [int(one) for one in parts]


EVENTS: Final = ByTime("events", itemgetter("t"), EVENTS_MAX, 20, ("lines",), is_marked=True)
LOG: Final = ByTime("lines", itemgetter("time"), LINES_MAX, 50)
