"""Readable names: the broker knows a client by its address; the run, or the client, says more."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from penstock.spark.schema.rows import Tables

CONNECTION: Final = "conn:"
Row = TypeVar("Row", bound=tuple[object, ...])


def client_names(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names by address, from connections and what their clients call themselves.

    Where several have one name the address goes with it; an address that two clients had, one after
    the other, stays an address.
    """
    given: dict[str, set[str]] = {}
    for actor, name in found:
        if actor.startswith(CONNECTION):
            names = given.setdefault(actor.removeprefix(CONNECTION), set())
            # Two are as good as all of them, which may be as many as there ever were connections.
            if len(names) < 2:
                names.add(name)
    single = {address: min(names) for address, names in given.items() if len(names) == 1}
    bearers = Counter(single.values())
    return {
        address: name if bearers[name] == 1 else f"{name}@{address}"
        for address, name in single.items()
        if name
    }


def renamed(tables: Tables, names: Mapping[str, str]) -> Tables:
    """The same tables with every address in `names` replaced, in actors, peers and paths.

    Only what people read is renamed; the files keep the broker's ids, so that they can be joined
    with its events.
    """
    if not names:
        return tables
    rename = renamer(names)
    return tables._replace(
        who_blocked_whom=tuple(
            row._replace(actor=rename(row.actor), peer=rename(row.peer))
            for row in tables.who_blocked_whom
        ),
        root_cause=tuple(
            row._replace(victim=rename(row.victim), root=rename(row.root), path=rename(row.path))
            for row in tables.root_cause
        ),
        held_time=tuple(row._replace(actor=rename(row.actor)) for row in tables.held_time),
        time_in_state=tuple(row._replace(actor=rename(row.actor)) for row in tables.time_in_state),
    )


def renamer(names: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces whole addresses: 127.0.0.1:551 is not part of 127.0.0.1:5512."""
    addresses = "|".join(re.escape(address) for address in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.])(?:{addresses})(?!\d)")

    def rename(text: str) -> str:
        return pattern.sub(lambda found: names[found[0]], text)

    return rename
