"""Definitions of several workers are one file, and one file is imported by all or by none."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.errors import UnavailableError
from tests.unit.server.workers.test_gather_table import HASH, RIGHTS
from tests.unit.server.workers.workforce import Row, Workforce, workforce

VHOSTS = (("/", "a"), ("b",), ("c",))
USER = {"name": "u", "password_hash": HASH, "hashing_algorithm": "argon2id", "tags": ""}
EVERYWHERE = ("/", "a", "b", "c", "new", "newer")


def file(*vhosts: str, **more: Any) -> Row:
    """Something of each kind in each of these virtual hosts."""
    found: Row = {
        "vhosts": [{"name": one} for one in vhosts],
        "users": [USER | {"limits": {"max-channels": 7}}],
        "permissions": [{"user": "u", "vhost": one, **RIGHTS} for one in vhosts],
        "topic_permissions": [
            {"user": "u", "vhost": one, "exchange": "amq.topic", "write": "", "read": ""}
            for one in vhosts
        ],
        "parameters": [
            {
                "vhost": one,
                "component": "vhost-limits",
                "name": "limits",
                "value": {"max-queues": 9},
            }
            for one in vhosts
        ],
        "global_parameters": [{"name": "strange", "value": 1}],
        "policies": [
            {
                "vhost": one,
                "name": "p",
                "pattern": "x",
                "apply-to": "all",
                "priority": 0,
                "definition": {"max-length": 5},
            }
            for one in vhosts
        ],
        "queues": [
            {"vhost": one, "name": "q", "durable": True, "auto_delete": False, "arguments": {}}
            for one in vhosts
        ],
        "exchanges": [
            {
                "vhost": one,
                "name": "e",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
            for one in vhosts
        ],
        "bindings": [
            {
                "source": "e",
                "vhost": one,
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "k",
                "arguments": {},
            }
            for one in vhosts
        ],
    }
    return found | more


def question(definitions: object, **more: object) -> Row:
    return {"definitions": msgspec.Raw(msgspec.json.encode(definitions)), **more}


async def taken(force: Workforce, definitions: object, **more: object) -> Row:
    return await force.ask("definitions", "import", **question(definitions, **more))


async def refused(force: Workforce, definitions: object, **more: object) -> str:
    return await force.refusal("definitions", "import", **question(definitions, **more))


async def test_every_worker_imports_what_is_its_own(tmp_path: Path) -> None:
    async with workforce(tmp_path / "a", *VHOSTS) as force:
        answer = await taken(force, file(*EVERYWHERE))
        assert answer["imported"] == {
            "vhosts": 2,
            "users": 1,
            "limits": 7,
            "policies": 6,
            "permissions": 12,
            "exchanges": 6,
            "queues": 6,
            "bindings": 6,
        }
        assert answer["notes"] == [
            "global_parameters[0]: global parameter 'strange' is not known here"
        ]
        assert force.places.places == {"/": 0, "a": 0, "b": 1, "c": 2, "new": 1, "newer": 2}
        for worker, bed in enumerate(force.beds):
            mine = {name for name, at in force.places.places.items() if at == worker}
            assert set(bed.broker.vhosts) == mine
            assert all(set(one.queues) == {"q"} for one in bed.broker.vhosts.values())
        out = await force.ask("definitions", "export")
        assert out["notes"] == [
            "users: RabbitMQ takes no argon2id hashes; give it other passwords (rabbitmqctl "
            "change_password)"
        ]
        again = await taken(force, out["definitions"])
        assert {key for key, count in again["imported"].items() if count} == {
            *("users", "limits", "policies", "permissions")
        }
    async with workforce(tmp_path / "b", EVERYWHERE) as single:
        one = await taken(single, file(*EVERYWHERE))
        assert one["imported"] == answer["imported"] | {"vhosts": 0}
        found = (await single.ask("definitions", "export"))["definitions"]
        assert _sorted(found) == _sorted(out["definitions"])


def _sorted(definitions: Row) -> Row:
    """Passwords that are hashed for the file are hashed anew each time."""
    found = {
        key: sorted(map(str, value)) if isinstance(value, list) else value
        for key, value in definitions.items()
    }
    found["users"] = sorted(row["name"] for row in definitions["users"])
    return found


async def test_a_fault_for_one_worker_changes_nothing_at_any(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        given = file(*EVERYWHERE)
        for key, place, said in (
            ("queues", 2, "queues[2].name: is empty"),
            ("exchanges", 5, "exchanges[5].name"),
            ("bindings", 4, "bindings[4].source"),
        ):
            rows = [dict(row) for row in given[key]]
            rows[place]["name" if key != "bindings" else "source"] = "" if key == "queues" else 1
            refusal = await refused(force, given | {key: rows})
            assert said in refusal, refusal
        unknown = [*given["queues"], {"vhost": "none", "name": "q"}]
        refusal = await refused(force, given | {"queues": unknown})
        assert "queues[6].vhost: there is no vhost 'none', here or in the file" in refusal
        assert "as an object" in await refused(force, 5)
        assert force.places.log == []
        for bed in force.beds:
            assert "u" not in bed.broker.access.users
            assert not any(one.queues for one in bed.broker.vhosts.values())


async def test_rows_without_a_virtual_host_are_for_the_one_that_is_named(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        given = {"queues": [{"name": "q", "durable": True, "arguments": {}}]}
        assert "names no vhost" in await refused(force, given)
        answer = await taken(force, given, vhost="c")
        assert answer["imported"]["queues"] == 1
        assert set(force.beds[2].broker.vhosts["c"].queues) == {"q"}
        said = await refused(force, given, vhost="none")
        assert said == "no vhost 'none'; one of: /, a, b, c"


async def test_what_a_dead_worker_has_not_is_said(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await force.stop(2)
        # The kind that HTTP answers with 503, as the same file is good a moment later.
        with pytest.raises(UnavailableError, match=r"worker 2 does not.*; nothing was imported$"):
            await taken(force, file(*EVERYWHERE))
        assert force.places.log == []


async def test_what_goes_wrong_after_the_check_is_said(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        # As another import that this worker was asked for by itself.
        other = force.questions[2].answers["definitions import"]
        other.__self__.is_importing = True  # type: ignore[attr-defined]  # a bound method
        said = await refused(force, file(*EVERYWHERE))
        assert said.startswith(
            "imported at worker 0, 1, and not at worker 2 (another import is under way; "
        ), said
        assert "import the same file again" in said
        assert force.places.places == {"/": 0, "a": 0, "b": 1, "c": 2, "new": 1}
        assert force.places.log == ["place new", "place newer", "forget newer"]
        other.__self__.is_importing = False  # type: ignore[attr-defined]  # the same
        answer = await taken(force, file(*EVERYWHERE))
        assert answer["imported"]["vhosts"] == 1 and answer["imported"]["queues"] == 2
