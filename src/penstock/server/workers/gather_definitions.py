"""Definitions of all workers in one file, and one file for all workers.

An import is checked by every worker before any of them changes something. Each reads the whole file
and takes what is for its own virtual hosts, so that faults are named by their place in the file;
what is the same at all workers, as users, all of them take.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.base.errors import OperatorError, UnavailableError
from penstock.broker.actors.cooperative import Steps
from penstock.server.control.control_socket import in_slices
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way
from penstock.server.workers.worker_client import WorkerGone

ALIKE: Final = ("users", "global_parameters")
"""Rows that all workers have alike."""
STEP_ROWS: Final = 64


class Export(Way):
    """Fails where a worker is missing: a file without its part would look whole."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        answers = await everybody.each_rows(fields)
        found: Row = answers[0]["definitions"]
        for answer in answers[1:]:
            for key, value in answer["definitions"].items():
                if isinstance(value, list) and key not in ALIKE:
                    found[key].extend(value)
        notes = [msgspec.json.decode(one) for answer in answers for one in answer["notes"]]
        return {"definitions": found, "notes": list(dict.fromkeys(notes))}


class _Named(msgspec.Struct):
    name: str = ""


def _named_vhosts(given: object) -> Steps[list[str]]:
    """The virtual hosts that a file makes, none for what a worker will find a fault in."""
    found: list[str] = []
    if not isinstance(given, msgspec.Raw):
        return found
    try:
        parts = msgspec.json.decode(given, type=dict[str, msgspec.Raw])
        yield 0.0
        for row in msgspec.json.decode(parts.get("vhosts", b"[]"), type=list[msgspec.Raw]):
            found.append(msgspec.json.decode(row, type=_Named).name)
            if len(found) % STEP_ROWS == 0:
                yield 0.0
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return list(dict.fromkeys(found))


class Import(Way):
    """One at a time. New virtual hosts have their place before they are made."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        if everybody.is_importing:
            raise OperatorError("another import is under way; try again when it has ended")
        everybody.is_importing = True
        try:
            return await self._import(everybody, fields)
        finally:
            everybody.is_importing = False

    async def _import(self, everybody: Everybody, fields: Fields) -> Answer:
        places = everybody.places
        vhost = str(fields.get("vhost", ""))
        if vhost != "" and everybody.home(vhost) is None:
            raise everybody.no_vhost(vhost)
        named = await in_slices(_named_vhosts(fields.get("definitions")))
        there = places.vhosts()
        new = [name for name in named if name not in there]
        if everybody.count > 1:
            questions = _questions(everybody, {**fields, "do": "check"}, new)
            for found in await everybody.outcomes(questions, everybody.workers.ask):
                if isinstance(found, OperatorError):
                    raise _nothing(found)
        async with everybody.changing:
            return await self._apply(everybody, fields, new)

    async def _apply(self, everybody: Everybody, fields: Fields, new: Sequence[str]) -> Answer:
        """Every worker has found the file good. new: virtual hosts without a place."""
        places = everybody.places
        try:
            for name in new:
                await places.add(name)
            first = await everybody.workers.ask(0, _questions(everybody, fields, ())[0])
        except WorkerGone as gone:
            raise UnavailableError(f"{gone}; of the file, all or nothing is there") from gone
        except OperatorError:
            for name in new:
                await places.drop(name)
            raise
        return await self._others(everybody, fields, first, new)

    async def _others(
        self, everybody: Everybody, fields: Fields, first: Row, new: Sequence[str]
    ) -> Answer:
        """first: the answer of the first worker, which has imported its part."""
        if everybody.count == 1:
            return first
        questions = _questions(everybody, fields, ())[1:]
        workers = everybody.workers

        async def ask(index: int, question: Fields) -> Row:
            return await workers.ask(index + 1, question)

        answers, done, faults = [first], ["0"], []
        is_away = False
        for worker, found in enumerate(await everybody.outcomes(questions, ask), 1):
            if not isinstance(found, OperatorError):
                answers.append(found)
                done.append(str(worker))
                continue
            faults.append(f"worker {worker} ({found})")
            is_away = is_away or isinstance(found, UnavailableError)
            for name in new:
                if not isinstance(found, WorkerGone) and everybody.home(name) == worker:
                    await everybody.places.drop(name)
        if faults:
            kind = UnavailableError if is_away else OperatorError
            raise kind(
                f"imported at worker {', '.join(done)}, and not at {', '.join(faults)}; import "
                "the same file again: what is there already stays as it is"
            )
        if new:
            await everybody.places.spread()
        await everybody.make_all_equal()
        return _summed(answers)


def _nothing(found: OperatorError) -> OperatorError:
    if isinstance(found, WorkerGone):
        return UnavailableError(f"{found}; nothing was imported")
    return found


def _questions(everybody: Everybody, fields: Fields, new: Sequence[str]) -> list[Row]:
    """For each worker, with the virtual hosts that are not its. new: those without a place, which
    the first worker looks at."""
    if everybody.count == 1:
        return [dict(fields)]
    places = everybody.places.vhosts()
    found: list[Row] = []
    for worker in range(everybody.count):
        elsewhere = [name for name, home in places.items() if home != worker]
        if worker > 0:
            elsewhere += new
        found.append({**fields, "elsewhere": elsewhere})
    return found


def _summed(answers: Sequence[Row]) -> Row:
    counts: Counter[str] = Counter()
    for worker, answer in enumerate(answers):
        shared: Mapping[str, int] = answer["shared"] if worker > 0 else {}
        for key, count in answer["imported"].items():
            counts[key] += count - shared.get(key, 0)
    notes: list[Any] = [note for answer in answers for note in answer["notes"]]
    return {"imported": dict(counts), "notes": list(dict.fromkeys(notes))}
