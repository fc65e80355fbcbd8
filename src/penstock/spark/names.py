"""Readable names: the broker knows a client by its address, the run knows which client that was."""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock.spark.rows import Tables

Row = TypeVar("Row", bound=tuple[object, ...])


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
