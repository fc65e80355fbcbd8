"""Ways to one answer for all workers: ask the one whose it is, or all, and add up what they say."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from penstock.base.errors import OperatorError, UnavailableError
from penstock.base.shown_names import shown_name
from penstock.server.workers.gather_sums import Rule, merged
from penstock.server.workers.worker_client import WorkerGone

T = TypeVar("T")
Row = dict[str, Any]
Fields = Mapping[str, Any]
Answer = Row | msgspec.Raw
Ask = Callable[[int, Fields], Awaitable[Row]]
UNKNOWN_VHOST: Final = "no vhost '{}'; one of: "
MISSING: Final = "missing"
"""In an answer: which workers' part is not in it, and why, one sentence each."""


class Workers(Protocol):
    """As worker_client."""

    @property
    def count(self) -> int: ...

    async def ask(self, worker: int, fields: Fields) -> Row: ...

    async def ask_raw(self, worker: int, fields: Fields) -> msgspec.Raw: ...

    async def ask_rows(self, worker: int, fields: Fields) -> Row: ...


class Places(Protocol):
    """As placement."""

    def worker_of(self, vhost: str) -> int: ...

    def vhosts(self) -> dict[str, int]: ...

    async def add(self, vhost: str) -> int: ...

    async def drop(self, vhost: str) -> None: ...

    async def spread(self) -> None: ...


class Everybody:
    """workers: to be asked; places: who has which virtual host; is_importing: definitions are being
    imported, one file at a time; changing: what all workers have alike is changed, by one after the
    other, or two changes could come to two workers in two orders. Raises: OperatorError."""

    def __init__(self, workers: Workers, places: Places) -> None:
        self.workers = workers
        self.places = places
        self.is_importing = False
        self.changing = asyncio.Lock()
        self._placing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def count(self) -> int:
        return self.workers.count

    def placing(self, vhost: str) -> asyncio.Lock:
        """Held while a virtual host is made or deleted: one that is made again while it is being
        deleted would be there, and have no place."""
        return self._placing.setdefault(vhost, asyncio.Lock())

    def home(self, vhost: str) -> int | None:
        """The worker of a virtual host, None where there is no such one."""
        worker = self.places.worker_of(vhost)
        return worker if 0 <= worker < self.count else None

    def no_vhost(self, vhost: str, words: str = UNKNOWN_VHOST) -> OperatorError:
        """Such a one there is not. words: of a broker that says so."""
        return OperatorError(words.format(vhost) + ", ".join(sorted(self.places.vhosts())))

    async def at_home(self, vhost: str, fields: Fields) -> msgspec.Raw:
        """The answer of the worker that has this virtual host. If none has it, the first one says
        what it thinks of the question, which may have other faults, too."""
        worker = self.home(vhost)
        try:
            return await self.workers.ask_raw(worker or 0, fields)
        except OperatorError as error:
            if worker is None and str(error).startswith(UNKNOWN_VHOST.format(vhost)):
                raise self.no_vhost(vhost) from error
            raise

    async def first(self, fields: Fields, ask: Callable[[int, Fields], Awaitable[T]]) -> T:
        """The answer of the first worker that answers."""
        for worker in range(self.count - 1):
            with suppress(WorkerGone):
                return await ask(worker, fields)
        return await ask(self.count - 1, fields)

    async def make_equal(self, worker: int) -> int:
        """Users and their limits, to those of the first worker; only while nobody changes them (see
        changing). How many were not."""
        kept = await self.workers.ask(0, {"op": "users", "do": "kept"})
        take = {"op": "users", "do": "take", "users": kept["users"]}
        return int((await self.workers.ask(worker, take))["changed"])

    async def make_all_equal(self) -> None:
        """Where each has hashed a password with a salt of its own. One that is gone is made equal
        at its next start."""
        for worker in range(1, self.count):
            with suppress(WorkerGone):
                await self.make_equal(worker)

    async def outcomes(self, questions: Sequence[Fields], ask: Ask) -> list[Row | OperatorError]:
        """What each worker says to its question, or why it does not."""
        found = await asyncio.gather(
            *(_outcome(ask(worker, fields)) for worker, fields in enumerate(questions))
        )
        return list(found)

    async def each(self, fields: Fields) -> list[Row]:
        """The answers of all of them."""
        found = await self.outcomes([fields] * self.count, self.workers.ask)
        return [_good(one) for one in found]

    async def each_rows(self, fields: Fields) -> list[Row]:
        """The same, with rows as they came."""
        found = await self.outcomes([fields] * self.count, self.workers.ask_rows)
        return [_good(one) for one in found]

    async def there(
        self, questions: Sequence[Fields], ask: Ask
    ) -> tuple[dict[int, Row], list[str]]:
        """The answers of those who answer, and who does not. Raises: OperatorError if none does."""
        answers: dict[int, Row] = {}
        missing: list[str] = []
        for worker, one in enumerate(await self.outcomes(questions, ask)):
            if isinstance(one, WorkerGone) and (answers or worker < self.count - 1):
                missing.append(f"worker {worker}: {one.why}")
            else:
                answers[worker] = _good(one)
        return answers, missing


async def _outcome(answer: Awaitable[Row]) -> Row | OperatorError:
    try:
        return await answer
    except OperatorError as error:
        return error


def _good(found: Row | OperatorError) -> Row:
    if isinstance(found, OperatorError):
        raise found
    return found


def with_missing(answer: Row, missing: list[str]) -> Row:
    """Said only where something is."""
    return {**answer, MISSING: missing} if missing else answer


class Way:
    """How one question is answered. Raises: OperatorError."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        raise NotImplementedError


class First(Way):
    """What is the same at all workers is asked of the first that answers."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        return await everybody.first(fields, everybody.workers.ask_raw)


class OfVhost(Way):
    """Asked of the worker whose virtual host is named. path: of its name in the question; default:
    what is meant where none is named."""

    def __init__(self, *path: str, default: str = "/") -> None:
        self.path = path
        self.default = default

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        found: object = fields
        for key in self.path:
            # What is no object, the worker says what is wrong with.
            found = found.get(key) if isinstance(found, Mapping) else None
        vhost = self.default if found in (None, "") else str(found)
        return await everybody.at_home(vhost, fields)


class NotEverywhere(OperatorError):
    """A change is made, and workers that are away have it at their next start."""


class AtAll(Way):
    """A change of what is the same at all workers: the first checks and makes it, then the others.
    rules: of the fields of its answer that are not the first one's; is_hashing: a password may be
    hashed with it."""

    def __init__(
        self, rules: Mapping[str, Rule] | None = None, *, is_hashing: bool = False
    ) -> None:
        self.rules = rules or {}
        self.is_hashing = is_hashing

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        async with everybody.changing:
            answer = await self._change(everybody, self.questions(everybody, fields))
            if self.is_hashing:
                await everybody.make_all_equal()
            return answer

    def questions(self, everybody: Everybody, fields: Fields) -> list[tuple[int, Fields]]:
        """Which worker is asked what, the first one first."""
        return [(worker, fields) for worker in range(everybody.count)]

    async def _change(self, everybody: Everybody, questions: list[tuple[int, Fields]]) -> Row:
        workers = everybody.workers
        (first, fields), *others = questions
        answers = [await workers.ask(first, fields)]
        found = await asyncio.gather(*(_outcome(workers.ask(*one)) for one in others))
        faults: list[str] = []
        for (worker, _), one in zip(others, found, strict=True):
            if isinstance(one, OperatorError):
                why = one.why if isinstance(one, WorkerGone) else str(one)
                faults.append(f"worker {worker} ({why})")
            else:
                answers.append(one)
        if faults:
            said = answers[0].get("said")
            raise NotEverywhere(
                f"{said or 'it is done'}, but not at {', '.join(faults)}, which is made equal to "
                "the others at its next start"
            )
        return merged(answers, self.rules)


class OfLimits(Way):
    """Limits of a virtual host are its worker's, those of a user are everywhere."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        kind = str(fields.get("kind", ""))
        if kind == "vhost":
            return await OfVhost("name", default="").answer(everybody, fields)
        return await (AtAll() if kind == "user" else First()).answer(everybody, fields)


class Summed(Way):
    """Asked of all, and added up field by field. rules: how each is, of those that are not the
    first one's; is_whole: it fails where a worker is missing."""

    def __init__(self, rules: Mapping[str, Rule], is_whole: bool = False) -> None:
        self.rules = rules
        self.is_whole = is_whole

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        if self.is_whole:
            return merged(await everybody.each(fields), self.rules)
        questions = [fields] * everybody.count
        answers, missing = await everybody.there(questions, everybody.workers.ask)
        return with_missing(merged(list(answers.values()), self.rules), missing)


class Joined(Way):
    """Lists of all workers, one behind the other. Fails where a worker is missing."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        found: Row = {}
        for answer in await everybody.each_rows(fields):
            for key, value in answer.items():
                if isinstance(value, list):
                    found.setdefault(key, []).extend(value)
                else:
                    found.setdefault(key, value)
        return found


class OfQueue(Way):
    """Asked of the worker that has the queue which is named as it shows itself. key: of its name
    in the question."""

    def __init__(self, key: str = "name") -> None:
        self.key = key

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        worker = await worker_of_queue(everybody, str(fields.get(self.key, "")))
        return await everybody.workers.ask_raw(worker, fields)


async def worker_of_queue(everybody: Everybody, name: str) -> int:
    """Raises: OperatorError for a queue that is nowhere, or in several virtual hosts."""
    seek = {"op": "queues", "do": "seek", "name": name}
    answers, missing = await everybody.there([seek] * everybody.count, everybody.workers.ask)
    for kind in ("whole", "bare"):
        names = [(one, worker) for worker, found in answers.items() for one in found[kind]]
        if len(names) == 1 and missing and kind == "bare":
            raise OperatorError(
                f"queue '{name}' may be in several virtual hosts: {'; '.join(missing)}; write "
                f"{names[0][0]} for the one that is known"
            )
        if len(names) == 1:
            return names[0][1]
        if len(names) > 1:
            shown = ", ".join(one for one, _ in names)
            raise OperatorError(
                f"queue '{name}' is in several virtual hosts; write one of: {shown}"
            )
    if missing:
        raise _not_found("queue", name, missing)
    raise OperatorError(f"no queue '{name}'; `penstock queues` lists them")


def _not_found(what: str, name: str, missing: Sequence[str]) -> OperatorError:
    return UnavailableError(
        f"{what} '{name}' is at no worker that answers; of others nothing is known: "
        f"{', '.join(missing)}; try again"
    )


class OfCauses(Way):
    """Whose messages are in a queue, which is NAME in the virtual host /, or VHOST/NAME."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        name = str(fields.get("queue", ""))
        missing: list[str] = []
        for whole in (shown_name("/", name), name):
            seek = {"op": "queues", "do": "seek", "name": whole}
            asked = [seek] * everybody.count
            answers, missing = await everybody.there(asked, everybody.workers.ask)
            for worker, found in answers.items():
                if found["whole"]:
                    return await everybody.workers.ask_raw(worker, fields)
        if missing:
            raise _not_found("queue", name, missing)
        # It does not know it either, and says how they are named.
        return await everybody.workers.ask_raw(0, fields)


async def worker_of_connection(everybody: Everybody, name: str) -> int:
    """Raises: OperatorError for a connection that is nowhere, or a name that several have."""
    seek = {"op": "connections", "do": "seek", "name": name}
    answers, missing = await everybody.there([seek] * everybody.count, everybody.workers.ask)
    for kind in ("whole", "bare"):
        names = [(one, worker) for worker, found in answers.items() for one in found[kind]]
        if len(names) == 1 and not (missing and kind == "bare"):
            return names[0][1]
        if len(names) > 1:
            addresses = ", ".join(sorted(one for one, _ in names)[:5])
            raise OperatorError(f"{len(names)} connections are called '{name}': {addresses}")
    if missing:
        raise _not_found("connection", name, missing)
    raise OperatorError(f"no connection '{name}'; `penstock connections` lists them")


class OfConnection(Way):
    """Asked of the worker that has the connection which is named."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        worker = await worker_of_connection(everybody, str(fields.get("name", "")))
        return await everybody.workers.ask_raw(worker, fields)


class Either(Way):
    """One way where a field of the question says something, another where it is empty."""

    def __init__(self, key: str, said: Way, unsaid: Way) -> None:
        self.key = key
        self.said = said
        self.unsaid = unsaid

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        is_said = str(fields.get(self.key, "")) != ""
        return await (self.said if is_said else self.unsaid).answer(everybody, fields)
