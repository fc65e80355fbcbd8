"""The node as a whole, logins, virtual hosts made and deleted, connections closed."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.server.workers.gather_sums import (
    Rule,
    added,
    by_fields,
    either,
    joined,
    least,
    merged,
    most,
    said,
    some,
    soonest,
)
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way, with_missing
from penstock.server.workers.worker_client import WorkerGone

PAGE_ROWS: Final = 10_000
LOGIN_S: Final = 3.0
"""Whoever logs in over HTTP does not wait longer for a worker that hangs."""


def _own_pid(_values: Sequence[Any]) -> str:
    return str(os.getpid())


STATUS: Final[Mapping[str, Rule]] = {
    "sync": said,
    "failure": said,
    "connections": added,
    "queues": added,
    "alarms": either,
    "memory_bytes": most,
    "memory_high_bytes": most,
    "turns": added,
    "events_dropped": added,
}
"""Memory: every worker says that of all of them, see machine/probe."""
MACHINE: Final[Mapping[str, Rule]] = {
    "os_pid": _own_pid,
    "fd_used": added,
    "fd_total": added,
    "mem_used": most,
    "mem_limit": most,
    "mem_alarm": some,
    "disk_free": least,
    "disk_free_limit": most,
    "disk_free_alarm": some,
    "failure": said,
    "syncs": by_fields({"count": added, "seconds": added, "running_s": most}),
    "turns": added,
    "events_dropped": added,
    "login_failures": added,
}
FLOW: Final[Mapping[str, Rule]] = {"memory_alarm_in_s": soonest}


def _flow(values: Sequence[Row]) -> Row:
    return merged(values, FLOW, added)


NODE: Final[Mapping[str, Rule]] = {
    "uptime_ms": most,
    "totals": added,
    "states": added,
    "counts": added,
    "rates": added,
    "publishers": added,
    "queues_waiting": added,
    "held": added,
    "machine": by_fields(MACHINE),
    "vhosts": joined,
    "flow": _flow,
}
"""Listeners are those of the first: all workers have the same."""


class Node(Way):
    """One item: the node, as if it were one broker."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [fields] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask)
        rows = [row for answer in answers.values() for row in answer["items"]]
        found = merged(list(answers.values()), {}) | {"items": [merged(rows, NODE)]}
        return with_missing(found, missing)


class VhostNames(Way):
    """As they are placed, with the worker that has each."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        if everybody.count == 1:
            return await everybody.workers.ask_raw(0, fields)
        places = everybody.places.vhosts()
        return {"items": [{"name": name, "worker": worker} for name, worker in places.items()]}


class Login(Way):
    """Any worker knows every user; which virtual hosts one may use, each knows of its own. Those of
    a worker that does not answer nobody may use now, and it is `missing`."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        found = await everybody.first(fields, everybody.workers.ask)
        if "vhosts" not in found or everybody.count == 1:
            return found
        looks = (_known_soon(everybody, one, found["user"]) for one in range(everybody.count))
        known = await asyncio.gather(*looks)
        vhosts = [vhost for each in known if each is not None for vhost in each]
        missing = [
            f"worker {worker}: it does not answer"
            for worker, each in enumerate(known)
            if each is None
        ]
        return with_missing({**found, "vhosts": vhosts}, missing)


async def _known_soon(everybody: Everybody, worker: int, user: str) -> list[str] | None:
    """Virtual hosts of a worker that `user` may open, None if it does not say so in time."""
    with suppress(WorkerGone, TimeoutError):
        async with asyncio.timeout(LOGIN_S):
            return await _vhosts_of(everybody, worker, user)
    return None


async def _vhosts_of(everybody: Everybody, worker: int, user: str) -> list[str]:
    asked = {"op": "permissions", "do": "list", "user": user, "limit": PAGE_ROWS}
    found: dict[str, None] = {}
    after = ""
    while True:
        page = await everybody.workers.ask(worker, {**asked, "after": after})
        found |= dict.fromkeys(row["vhost"] for row in page["permissions"])
        after = page["next"]
        # Permissions for topics come behind the others.
        if after == "" or len(page["permissions"]) < PAGE_ROWS:
            return list(found)


class AddVhost(Way):
    """It has a place before it is made, and none any more where it could not be made."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        name = str(fields.get("name", ""))
        async with everybody.placing(name):
            return await self._make(everybody, name, fields)

    async def _make(self, everybody: Everybody, name: str, fields: Fields) -> Answer:
        places = everybody.places
        there = everybody.home(name)
        worker = await places.add(name) if there is None else there
        try:
            done = await everybody.workers.ask_raw(worker, fields)
        except WorkerGone as gone:
            # It may have been made: what its worker has at its next start decides.
            raise OperatorError(
                f"vhost '{name}' has its place at worker {worker}, and whether it is there is not "
                f"known: {gone}"
            ) from gone
        except OperatorError:
            if there is None:
                await places.drop(name)
            raise
        if there is None:
            await places.spread()
        return done


NO_VHOST: Final = "no vhost '{}'; there is: "
"""What a worker says begins so, with the name in it."""


class DeleteVhost(Way):
    """It keeps its place until all of it is gone."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        name, places = str(fields.get("name", "")), everybody.places
        async with everybody.placing(name):
            worker = everybody.home(name)
            if worker is None:
                raise everybody.no_vhost(name, NO_VHOST)
            try:
                done: Answer = await everybody.workers.ask_raw(worker, fields)
            except OperatorError as error:
                if not str(error).startswith(NO_VHOST.format(name)):
                    raise
                # Its place alone was left, by a deletion to which nobody could agree.
                done = {"said": f"vhost '{name}' is deleted"}
            await places.drop(name)
        return done
