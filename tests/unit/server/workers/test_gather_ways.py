"""Questions that one of several workers answers, or all of them alike."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.control.control_socket import ASKER
from penstock.server.workers.gather import Gather
from penstock.server.workers.worker_client import WorkerClient
from tests.unit.broker.peer import Bed, Peer
from tests.unit.server.workers.test_gather_table import HASH, POLICY, RIGHTS
from tests.unit.server.workers.workforce import Workforce, workforce

VHOSTS = (("/", "a"), ("b",), ("c", "b/d"))
USER = {"password_hash": HASH, "hashing_algorithm": "argon2id"}


def connected(force: Workforce, vhost: str, name: str = "peer", *queues: str) -> Peer:
    peer = force.bed_of(vhost).connect(name, vhost=vhost)
    for one in queues:
        peer.call(1, m.QueueDeclare(one), m.QueueDeclareOk)
    return peer


def is_paused(bed: Bed, vhost: str, name: str) -> bool:
    return bool(bed.broker.vhosts[vhost].queues[name].is_paused)


async def test_a_queue_is_found_at_its_worker(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        connected(force, "/", "p1", "orders", "b/x")
        connected(force, "b", "p2", "x", "d/y", "only")
        connected(force, "b/d", "p3", "y")
        # As it shows itself: that a queue of / is called b/x is less.
        paused = await force.ask("queues", "pause", name="b/x")
        assert paused == {"queue": "b/x", "is_paused": True, "was_paused": False}
        assert is_paused(force.beds[1], "b", "x") and not is_paused(force.beds[0], "/", "b/x")
        assert (await force.ask("queues", "pause", name="only"))["queue"] == "b/only"
        assert (await force.ask("queues", "list", name="/orders"))["total"] == 1
        # y of b/d, not d/y of b.
        assert (await force.ask("queues", "pause", name="b/d/y"))["queue"] == "b/d/y"
        assert is_paused(force.beds[2], "b/d", "y") and not is_paused(force.beds[1], "b", "d/y")
        assert (await force.ask("queues", "pause", name="b/d%2Fy"))["queue"] == "b/d%2Fy"
        assert is_paused(force.beds[1], "b", "d/y")
        causes = await force.ask("flow", "accounts", queue="b/x")
        assert causes["queue"] == "queue:/b%2Fx", "NAME of / comes first"
        connected(force, "c", "p4", "orders")
        said = await force.refusal("queues", "resume", name="orders")
        assert said == "queue 'orders' is in several virtual hosts; write one of: /orders, c/orders"
        said = await force.refusal("queues", "release", name="none", group="g")
        assert said == "no queue 'none'; `penstock queues` lists them"
        causes = await force.ask("flow", "accounts", queue="orders")
        assert causes["queue"] == "queue:/orders"
        assert (await force.ask("flow", "accounts", queue="b/only"))["queue"] == "queue:b/only"
        assert "VHOST/NAME" in await force.refusal("flow", "accounts", queue="none")


async def test_a_virtual_host_has_its_worker(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await force.ask("policies", "set", policy=POLICY | {"vhost": "b"})
        await force.ask("policies", "set", policy=POLICY)
        listed = (await force.ask("policies"))["policies"]
        assert [one["vhost"] for one in listed] == ["/", "b"]
        assert force.beds[1].broker.policies.count("b") == 1
        assert len((await force.ask("policies", "export"))["policies"]) == 2
        await force.ask("permissions", "set", user="guest", vhost="c", **RIGHTS)
        permission = force.beds[2].broker.permissions.of("guest", "c")
        assert permission is not None and permission.configure == ""
        known = "one of: /, a, b, b/d, c"
        for op, do, fields in (
            ("queues", "list", {"vhost": "none"}),
            ("policies", "set", {"policy": POLICY | {"vhost": "none"}}),
            ("permissions", "set", {"user": "guest", "vhost": "none", **RIGHTS}),
            ("objects", "queues", {"vhost": "none", "name": "x"}),
            ("limits", "set", {"kind": "vhost", "name": "none", "limits": {"max-queues": 1}}),
            ("super-streams", "add", {"vhost": "none", "name": "x", "partitions": 1}),
        ):
            assert await force.refusal(op, do, **fields) == f"no vhost 'none'; {known}"
        await force.ask("limits", "set", kind="vhost", name="b", limits={"max-queues": 7})
        assert force.beds[1].broker.limits.limits_of("vhost", "b") == {"max-queues": 7}


async def test_a_virtual_host_has_a_place_before_it_is_made(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        done = await force.ask("vhosts", "add", name="new")
        assert done["said"].startswith("vhost 'new' is there")
        assert force.places.places["new"] == 1 and "new" in force.beds[1].broker.vhosts
        assert await force.refusal("vhosts", "add", name="new") == "vhost 'new' is there already"
        assert "1 to 255 bytes" in await force.refusal("vhosts", "add", name="x" * 300)
        assert force.places.log == ["place new", f"place {'x' * 300}", f"forget {'x' * 300}"]
        names = (await force.ask("objects", "vhosts"))["items"]
        assert {"name": "new", "worker": 1} in names and len(names) == 6
        known = "there is: /, a, b, b/d, c, new"
        assert await force.refusal("vhosts", "delete", name="x") == f"no vhost 'x'; {known}"
        connected(force, "b", "gone", "q")
        done = await force.ask("vhosts", "delete", name="new")
        assert done["said"].startswith("vhost 'new' is deleted")
        assert "new" not in force.places.places
        # One of the configuration stays, and so does its place.
        assert "configuration" in await force.refusal("vhosts", "delete", name="b")
        assert force.places.places["b"] == 1


async def test_a_deletion_that_nobody_could_agree_to_is_tried_again(tmp_path: Path) -> None:
    """Its worker has deleted it; it stays listed, until its place is free as well."""
    async with workforce(tmp_path, *VHOSTS) as force:
        await force.ask("vhosts", "add", name="new")
        force.places.fault = "etcd does not answer: try again"
        assert await force.refusal("vhosts", "delete", name="new") == force.places.fault
        assert "new" in force.places.places
        force.places.fault = ""
        done = await force.ask("vhosts", "delete", name="new")
        assert done["said"] == "vhost 'new' is deleted"
        assert "new" not in force.places.places


async def test_a_virtual_host_made_while_it_is_deleted_has_a_place(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:

        async def often(do: str) -> None:
            for _ in range(20):
                with suppress(OperatorError):
                    await force.ask("vhosts", do, name="new")

        for _ in range(3):
            await asyncio.gather(*(often(do) for do in ("add", "delete") * 3))
            there = {name: at for at, bed in enumerate(force.beds) for name in bed.broker.vhosts}
            assert force.places.places == there


async def test_users_are_at_all_workers_alike(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await force.ask("users", "add", name="u", tags=["management"], **USER)
        assert all("u" in bed.broker.access.users for bed in force.beds)
        await force.ask("limits", "set", kind="user", name="u", limits={"max-channels": 3})
        listed = await force.ask("limits")
        assert listed["limits"] == [
            {"kind": "user", "name": "u", "limits": {"max-channels": 3}, "used": {
                "max-connections": 0, "max-channels": 0
            }}
        ]  # fmt: skip
        assert listed["total"] == 1
        for vhost in ("/", "b"):
            connected(force, vhost)
        users = await force.ask("users")
        assert [(one["name"], one["connections"]) for one in users["users"]] == [
            ("guest", 2), ("u", 0)
        ]  # fmt: skip
        assert users["total"] == 2
        said = await force.refusal("users", "add", name="u", **USER)
        assert said == "user 'u' is there already; see change-password and set-tags"
        assert await force.ask("users", "delete", name="guest") == {
            "said": "user 'guest' is deleted; connections closed: 2"
        }
        assert all(list(bed.broker.access.users) == ["u"] for bed in force.beds)


async def test_who_may_use_which_virtual_hosts_all_workers_say(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        login = {"user": "guest", "password": "guest", "address": "127.0.0.1"}
        found = await force.ask("objects", "login", **login)
        assert found["vhosts"] == ["/", "a", "b", "b/d", "c"] and "missing" not in found
        await force.ask("permissions", "clear", user="guest", vhost="b")
        assert "b" not in (await force.ask("objects", "login", **login))["vhosts"]
        refused = await force.ask("objects", "login", **login | {"password": "x"})
        assert "refused" in refused
        # Users are the same at all workers, so one that has ended keeps nobody out of the others.
        await force.stop(0)
        found = await force.ask("objects", "login", **login)
        assert found["vhosts"] == ["b/d", "c"]
        assert found["missing"] == ["worker 0: it does not answer"]


def heard(peer: Peer) -> list[type[m.Method]]:
    return [type(one.method) for one in peer.heard()]


async def test_a_connection_is_closed_where_it_is(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        peers = [connected(force, vhost, f"p-{vhost}") for vhost in ("/", "b", "c")]
        rows = (await force.ask("connections"))["connections"]
        assert [one["name"] for one in rows] == ["p-/", "p-b", "p-c"]
        done = await force.ask("connections", "close", name="p-b", reason="why not")
        assert done == {"said": "connection 'p-b' is closed: why not"}
        assert [m.ConnectionClose in heard(peer) for peer in peers] == [False, True, False]
        said = await force.refusal("connections", "close", name="none")
        assert said == "no connection 'none'; `penstock connections` lists them"
        assert (await force.ask("objects", "channels", name="p-c"))["total"] == 1
        for peer in (peers[0], peers[2]):
            negotiator = peer.bed.broker.negotiators[peer.connection.name]
            negotiator.client_properties["connection_name"] = "web"
        said = await force.refusal("connections", "close", name="web")
        assert said == "2 connections are called 'web': p-/, p-c"
        assert [m.ConnectionClose in heard(peer) for peer in peers] == [False] * 3


async def test_a_change_that_one_worker_lacks_says_which(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await force.stop(2)
        said = await force.refusal("users", "add", name="u", **USER)
        assert said.startswith("user 'u' is there; ") and "but not at worker 2 (" in said
        assert said.endswith("which is made equal to the others at its next start")
        assert ["u" in bed.broker.access.users for bed in force.beds] == [True, True, False]
        # What the first worker refuses is done nowhere.
        await force.stop(0)
        assert "worker 0 does not answer" in await force.refusal("users", "add", name="v", **USER)
        assert "v" not in force.beds[1].broker.access.users


async def test_a_dead_worker_leaves_the_others_answering(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        for vhost in ("/", "b", "c"):
            connected(force, vhost, f"p-{vhost}", "q", f"q-{vhost}")
        whole = await force.ask("queues", sort="name", limit=10)
        assert "missing" not in whole and whole["total"] == 6
        await force.stop(1)
        assert (await force.ask("queues", "pause", name="/q"))["is_paused"]
        assert (await force.ask("objects", "queues", vhost="c"))["total"] == 2
        assert "worker 1 does not answer" in await force.refusal("objects", "queues", vhost="b")
        for op, do, fields in (
            ("queues", "list", {"sort": "name", "limit": 3}),
            ("objects", "node", {}),
            ("status", "", {}),
            ("flow", "top", {}),
            ("flow", "edges", {}),
            ("flow", "accounts", {}),
            ("flow", "alarms", {}),
            ("store", "", {}),
            ("why", "", {}),
            ("log", "", {}),
            ("record", "status", {}),
        ):
            (missing,) = (await force.ask(op, do, **fields))["missing"]
            assert missing.startswith("worker 1: "), (op, do)
        page = await force.ask("queues", sort="name", limit=3)
        assert [one["name"] for one in page["queues"]] == ["/q", "/q-%2F", "c/q"]
        rest = await force.ask("queues", sort="name", limit=3, after=page["next"])
        assert [one["name"] for one in rest["queues"]] == ["c/q-c"]
        # What has to be whole is not answered in part.
        assert "worker 1 does not answer" in await force.refusal("definitions", "export")
        assert "worker 1 does not answer" in await force.refusal("policies", "export")
        said = await force.refusal("queues", "pause", name="q-c")
        assert "may be in several virtual hosts: worker 1" in said and "write c/q-c" in said
        assert "worker 1: " in await force.refusal("queues", "pause", name="none")
        for one in (0, 2):
            await force.stop(one)
        assert "worker 2 does not answer" in await force.refusal("status")


async def test_a_slow_worker_holds_its_own_answers_and_no_others(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        heard = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.readline():
                heard.set()
            writer.close()

        path = str(tmp_path / "slow.sock")
        server = await asyncio.start_unix_server(listen, path)
        paths = [str(force.sockets[0].path), path, str(force.sockets[2].path)]
        client = WorkerClient(paths, 0.3)
        slow = Gather(client, force.places)
        began = asyncio.get_running_loop().time()
        asking = asyncio.create_task(_refused(slow, {"op": "queues", "do": "list", "vhost": "b"}))
        await heard.wait()
        for _ in range(20):
            await slow.answer({"op": "queues", "vhost": "/"})
        assert not asking.done()
        assert "worker 1 does not answer (nothing in 0.3 s)" in await asking
        login = {"user": "guest", "password": "guest", "address": "127.0.0.1"}
        known: Any = await slow.answer({"op": "objects", "do": "login", **login})
        assert known["vhosts"] == ["/", "a", "b/d", "c"]
        status: Any = await slow.answer({"op": "status"})
        assert status["missing"] == ["worker 1: nothing in 0.3 s"]
        assert 0.6 <= asyncio.get_running_loop().time() - began < 20
        client.close()
        await asyncio.sleep(0.01)
        server.close()


async def _refused(gather: Gather, question: dict[str, object]) -> str:
    with pytest.raises(OperatorError) as caught:
        await gather.answer(question)
    return str(caught.value)


async def test_what_is_no_question_a_worker_says(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        assert "unknown question 'x'" in await force.refusal("x")
        assert "unknown question 'queues x'" in await force.refusal("queues", "x")


async def test_the_audit_log_of_a_worker_has_who_asked_the_parent(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        told: list[tuple[object, str]] = []
        for socket in force.sockets:
            socket.told = lambda request, who: told.append((request.get("name"), who))
        own = f"uid {os.getuid()}"
        await force.ask("users", "add", name="u", **USER)
        assert told == [("u", own)] * 3
        ASKER.set("uid 4711")
        await force.ask("vhosts", "add", name="v")
        assert told[3:] == [("v", "uid 4711")]
        assert "asked_by" not in await force.ask("status")


@asynccontextmanager
async def late(force: Workforce, directory: Path, waits: list[float]) -> AsyncIterator[Gather]:
    """The second worker hears its first questions so much later, in seconds."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, out = await asyncio.open_unix_connection(str(force.sockets[1].path))
        while line := await reader.readline():
            await asyncio.sleep(waits.pop() if waits else 0)
            out.write(line)
            writer.write(await inner.readline())
        out.close()
        writer.close()

    path = str(directory / "late.sock")
    server = await asyncio.start_unix_server(relay, path)
    client = WorkerClient([str(force.sockets[0].path), path, str(force.sockets[2].path)])
    try:
        yield Gather(client, force.places)
    finally:
        client.close()
        await asyncio.sleep(0.01)
        server.close()


async def test_changes_are_made_in_one_order_at_all_workers(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force, late(force, tmp_path, [0.1]) as gather:
        await force.ask("users", "add", name="u", **USER)
        change = {"op": "users", "do": "set-tags", "name": "u"}
        await asyncio.gather(*(gather.answer(change | {"tags": [f"t{one}"]}) for one in range(5)))
        first, *others = [bed.broker.access.users["u"].tags for bed in force.beds]
        assert others == [first] * 2


async def test_a_worker_that_starts_has_what_is_changed_meanwhile(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force, late(force, tmp_path, [0.1]) as gather:
        await force.ask_one(0, "users", "add", name="before", **USER)
        starts = asyncio.create_task(gather.make_equal(1))
        await asyncio.sleep(0.02)
        await gather.answer({"op": "users", "do": "add", "name": "meanwhile", **USER})
        assert await starts == 1
        assert set(force.beds[1].broker.access.users) == {"guest", "before", "meanwhile"}


async def test_users_are_alike_where_each_worker_would_hash_a_password(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        # Workers have no salt in common.
        for worker, bed in enumerate(force.beds):
            bed.broker.chance.token(16 + worker)
        await force.ask("users", "set-tags", name="guest", tags=["monitoring"])
        first, *others = [dict(bed.broker.access.users) for bed in force.beds]
        assert first["guest"].hashing != "" and others == [first] * 2
        file = {"users": [{"name": "p", "password": "secret", "tags": ""}]}
        given = msgspec.Raw(msgspec.json.encode(file))
        await force.ask("definitions", "import", definitions=given)
        first, *others = [dict(bed.broker.access.users) for bed in force.beds]
        assert set(first) == {"guest", "p"} and others == [first] * 2


async def test_a_user_without_a_password_is_taken_by_a_worker_that_starts(tmp_path: Path) -> None:
    """As RabbitMQ's definitions have users who log in by other means: nobody's password fits."""
    async with workforce(tmp_path, ("/",), ("b",)) as force:
        given = {"users": [{"name": "by-token", "password_hash": "", "tags": "monitoring"}]}
        await force.ask_one(0, "definitions", "import", definitions=given)
        assert await force.gather.make_equal(1) == 1
        there, here = (bed.broker.access.users["by-token"] for bed in force.beds)
        assert there == here and there.password_hash == ""
