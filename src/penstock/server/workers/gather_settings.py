"""Settings of several workers: they are the same at all of them, but for the limits of the account
of one virtual host, or of a user in it, which are at the worker that has the virtual host."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.server.workers.gather_ways import (
    Answer,
    AtAll,
    Everybody,
    Fields,
    Row,
    Way,
    with_missing,
)
from penstock.server.workers.placement import NO_WORKER

VHOST: Final = "account.vhost."
USER: Final = "account.user."


def vhost_of(key: str) -> str | None:
    """Whose account this is the limit of, None for other settings."""
    family, _, name = key.partition(":")
    if family.startswith(VHOST):
        return name or None
    if family.startswith(USER) and "@" in name:
        return name.rpartition("@")[2]
    return None


def at_worker(
    changes: Mapping[str, str], worker: int, worker_of: Callable[[str], int]
) -> dict[str, str]:
    """Those that this worker can have. One of a virtual host that is nowhere each is to refuse."""
    found = {}
    for key, text in changes.items():
        vhost = vhost_of(key)
        home = NO_WORKER if vhost is None else worker_of(vhost)
        if home in (NO_WORKER, worker):
            found[key] = text
    return found


def by_key(lists: Sequence[Sequence[Row]]) -> list[Row]:
    """Rows of several workers, each key once."""
    found: dict[str, Row] = {}
    for rows in lists:
        for row in rows:
            found.setdefault(str(row["key"]), row)
    return list(found.values())


class SetSettings(AtAll):
    """The worker that can have most of them checks and makes them first."""

    def __init__(self) -> None:
        super().__init__({"changes": by_key})

    def questions(self, everybody: Everybody, fields: Fields) -> list[tuple[int, Fields]]:
        whole = super().questions(everybody, fields)
        changes = fields.get("changes")
        if not isinstance(changes, Mapping) or not changes:
            return whole
        own = {one: at_worker(changes, one, everybody.places.worker_of) for one, _ in whole}
        order = sorted((one for one in own if own[one]), key=lambda one: -len(own[one]))
        return [(one, {**fields, "changes": own[one]}) for one in order]


class SettingsOfAll(Way):
    """Each setting once, in the order of one worker's."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [fields] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask)
        rows = by_key([one["settings"] for one in answers.values()])
        rows.sort(key=_place)
        return with_missing({"settings": rows}, missing)


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    family, _, name = str(row["key"]).partition(":")
    return family, name
