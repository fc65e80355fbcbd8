"""Listings that are more than one list of rows: queues, accounts, the store, `flow top`, alarms."""

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec

from penstock.broker.actors.cooperative import Steps
from penstock.server.control.control_socket import in_slices
from penstock.server.workers.gather_pages import Listing, Page
from penstock.server.workers.gather_sums import (
    Rule,
    added,
    every,
    first,
    joined,
    latest,
    merged,
    most,
    some,
    soonest,
    united,
)
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way, with_missing

STEP_ROWS: Final = 64
DISK: Final = "disk"
SIZE: Final = "size"


def _read(rows: Sequence[Any]) -> Steps[list[Row]]:
    found: list[Row] = []
    for row in rows:
        found.append(msgspec.json.decode(row))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return found


class Queues(Listing):
    """With the exchanges that drop duplicates, on the first page."""

    def shown(self, page: Page, answers: Mapping[int, Row]) -> Steps[Row]:
        found = yield from super().shown(page, answers)
        rows = yield from _read([one for each in answers.values() for one in each["exchanges"]])
        rows.sort(key=lambda row: (-row["duplicates"], row["name"]))
        found["exchanges"] = rows[: page.limit]
        return found


class Store(Listing):
    """Queues and streams of a page stand below their virtual hosts, which are always there."""

    def __init__(self) -> None:
        super().__init__("rows")

    def prepare(self, answers: Mapping[int, Row]) -> Steps[None]:
        for answer in answers.values():
            answer["rows"] = answer["keys"]
        yield 0.0

    def shown(self, page: Page, answers: Mapping[int, Row]) -> Steps[Row]:
        found = yield from super().shown(page, answers)
        del found["rows"]
        vhosts: list[Row] = []
        for worker, answer in answers.items():
            left = {tuple(key) for key in answer["keys"][: page.taken[worker]]}
            for row in (yield from _read(answer["vhosts"])):
                for kind, (field, name) in enumerate((("queues", "queue"), ("streams", "stream"))):
                    mine = (row["vhost"], kind)
                    row[field] = [one for one in row[field] if (*mine, one[name]) in left]
                vhosts.append(row)
                yield 0.0
        return found | {"vhosts": vhosts}


# -- accounts ------------------------------------------------------------------------------------

LIMITS: Final = ("high_messages", "low_messages", "high_bytes", "low_bytes", "depth")
NODE_ACCOUNT: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(LIMITS, first),
    "is_held": some,
    "is_closed": every,
    "held_by": united,
    "held_for_ns": most,
    "pending_by": united,
    "pending_for_ns": most,
}


def one_account(rows: Sequence[Row]) -> Row:
    """That of the node, from those of the workers."""
    return merged(rows, NODE_ACCOUNT, added)


class Accounts(Listing):
    """By size: the node, below it the virtual hosts and users of all workers, and of connections
    those that have most. A worker's `keys` say of each row [0, -bytes, ...] above connections, and
    [1, place in the order ...] of a connection."""

    def __init__(self) -> None:
        super().__init__("rows")

    def prepare(self, answers: Mapping[int, Row]) -> Steps[None]:
        """Connections alone are picked, each by its number among the worker's rows."""
        for answer in answers.values():
            answer["places"] = answer["keys"]
            order = sorted(
                (place[1:], number) for number, place in enumerate(answer["keys"]) if place[0]
            )
            answer["keys"] = [key for key, _ in order]
            answer["rows"] = [number for _, number in order]
            yield 0.0

    def shown(self, page: Page, answers: Mapping[int, Row]) -> Steps[Row]:
        nodes: list[Row] = []
        trees: list[tuple[Any, list[Any]]] = []
        for worker, answer in answers.items():
            left = set(answer["rows"][: page.taken[worker]])
            rows = yield from _read(answer["accounts"])
            for number, (row, place) in enumerate(zip(rows, answer["places"], strict=True)):
                if row["depth"] == 0:
                    nodes.append(row)
                elif row["depth"] == 1:
                    trees.append((place[1:], [row]))
                elif place[0] == 0 or number in left:
                    trees[-1][1].append(row)
        trees.sort(key=itemgetter(0))
        yield 0.0
        accounts = [one_account(nodes)] if len(nodes) > 1 else nodes
        return {
            "accounts": accounts + [row for _, rows in trees for row in rows],
            "connections_more": page.total - page.count,
            "total": page.total,
            "next": page.next,
        }


# -- flow top and alarms -------------------------------------------------------------------------

TABLES: Final = ("publishers", "queues", "consumers")
FRAME: Final[Mapping[str, Rule]] = {
    "uptime_s": most,
    "window_s": most,
    "connections": added,
    "throttled": added,
    "in_rate": added,
    "out_rate": added,
    "used_bytes": most,
    "limit_bytes": most,
    "alarms": united,
}


class Top(Way):
    """A frame of all: of each table the rows that come first."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [{**fields, "with_keys": True}] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask_rows)
        limit = int(fields.get("limit", 50))
        frame = await in_slices(_frame(list(answers.values()), limit))
        return with_missing(frame, missing)


def _frame(answers: list[Row], limit: int) -> Steps[Row]:
    tables: Row = {}
    for name in TABLES:
        keyed = [
            [(key, worker, row) for key, row in zip(one["keys"][name], one[name], strict=True)]
            for worker, one in enumerate(answers)
        ]
        yield 0.0
        rows: list[Any] = []
        for _, _, row in islice(merge(*keyed, key=itemgetter(0, 1)), limit):
            rows.append(row)
            if len(rows) % STEP_ROWS == 0:
                yield 0.0
        there = sum(len(one[name]) + one[f"{name}_more"] for one in answers)
        tables |= {name: rows, f"{name}_more": there - len(rows)}
    for one in answers:
        del one["keys"]
        one["alarms"] = [msgspec.json.decode(alarm) for alarm in one["alarms"]]
    return merged(answers, FRAME) | tables


ALARM: Final[Mapping[str, Rule]] = {
    "is_set": some,
    "set_for_ns": most,
    "limit_bytes": latest,
    "clear_bytes": latest,
    "stopped": joined,
}


class Alarms(Way):
    """Each alarm once: every worker looks at the memory of all of them, and at the same disk."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [fields] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask)
        rows: dict[tuple[str, str], list[Row]] = {}
        for answer in answers.values():
            for row in answer["alarms"]:
                rows.setdefault((row["resource"], row["node"]), []).append(row)
        alarms = [
            merged(same, {**ALARM, "now_bytes": soonest if resource == DISK else latest})
            for (resource, _), same in rows.items()
        ]
        return with_missing({"alarms": alarms}, missing)


class AccountsBySort(Way):
    """By size they are a tree, by name a plain listing."""

    def __init__(self) -> None:
        self.by_size = Accounts()
        self.by_name = Listing("accounts", fold=one_account)

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        by_size = fields.get("sort", SIZE) == SIZE
        return await (self.by_size if by_size else self.by_name).answer(everybody, fields)
