"""What several workers are together: the node, its status, frames, alarms, accounts, the store."""

from pathlib import Path
from typing import Any

import pytest

from penstock.protocol import methods as m
from penstock.server.workers.gather_sums import added, closed, either, merged, soonest
from penstock.telemetry.snapshots import NS_PER_S, ActorSnapshot, Times
from tests.unit.server.workers.workforce import Row, Workforce, workforce

VHOSTS = (("/", "a"), ("b",), ("c",))


def fill(force: Workforce) -> None:
    """Worker K has K + 1 clients in each virtual host, with a queue and as many messages each."""
    for vhost, worker in force.places.places.items():
        for number in range(worker + 1):
            peer = force.beds[worker].connect(f"{vhost}{number}", vhost=vhost)
            peer.call(1, m.QueueDeclare(f"q{number}"), m.QueueDeclareOk)
            peer.publish(f"q{number}", *(b"x" * 100 for _ in range(worker + 1)))
        force.beds[worker].run()


def remember(force: Workforce) -> None:
    """Rounds in which worker K has published K + 1 messages a second."""
    for worker, asked in enumerate(force.questions):
        for number in range(1, 12):
            actors = {}
            for vhost in (one for one, at in force.places.places.items() if at == worker):
                name = f"{vhost}0"
                labels = {"vhost": vhost, "name": f"client {vhost}"}
                numbers = {"published": float(number * (worker + 1))}
                times = Times(idle_ns=number * NS_PER_S)
                actors[f"conn:{name}"] = ActorSnapshot(
                    f"conn:{name}", "conn", times=times, numbers=numbers, labels=labels
                )
            asked.history.push(number * NS_PER_S, actors)


async def test_status_and_node_are_of_all(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        fill(force)
        status = await force.ask("status")
        assert status["connections"] == {"running": 2 + 2 + 3}
        assert status["queues"]["count"] == 7
        assert status["queues"]["messages_ready"] == 2 + 4 + 9
        alone = await force.ask_one(0, "status")
        assert list(status) == list(alone) and status["version"] == alone["version"]
        (node,) = (await force.ask("objects", "node"))["items"]
        (of_one,) = (await force.ask_one(0, "objects", "node"))["items"]
        assert list(node) == list(of_one) and list(node["machine"]) == list(of_one["machine"])
        assert node["totals"]["connections"] == node["totals"]["queues"] == 7
        assert node["totals"]["messages_ready"] == 15
        assert node["vhosts"] == ["/", "a", "b", "c"]
        assert node["states"] == {"running": 7}
        assert _numbers(node["counts"], of_one["counts"]) == 0


def _numbers(found: Any, alone: Any) -> int:
    """How many counts are less than those of one worker."""
    if isinstance(found, dict):
        assert list(found) == list(alone)
        return sum(_numbers(found[key], alone[key]) for key in found)
    if isinstance(found, list):
        return sum(_numbers(*each) for each in zip(found, alone, strict=False))
    return isinstance(found, int | float) and found < alone


async def test_accounts_by_size_are_one_tree(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        fill(force)
        question = {"op": "flow", "do": "accounts", "sort": "size"}
        first = await force.ask(**question, limit=3)
        assert [one["name"] for one in first["accounts"] if one["depth"] == 0] == ["node"]
        node = first["accounts"][0]
        assert node["stored_messages"] == 15
        vhosts = [one for one in first["accounts"] if one["level"] == "vhost"]
        assert [one["name"] for one in vhosts[:2]] == ["vhost:c", "vhost:b"] and len(vhosts) == 4
        assert (first["total"], first["connections_more"]) == (7, 4)
        seen: list[str] = []
        after = ""
        while True:
            page = await force.ask(**question, limit=3, after=after)
            above = ""
            for row in page["accounts"]:
                # Each stands below its virtual host.
                above = row["name"].partition(":")[2] if row["level"] == "vhost" else above
                if row["level"] == "connection":
                    assert row["name"][5:-1] == above
                    seen.append(row["name"])
            after = page["next"]
            if after == "":
                break
        assert len(seen) == len(set(seen)) == 7
        assert set(seen[:3]) == {"conn:c0", "conn:c1", "conn:c2"}


async def test_a_frame_has_the_first_of_all(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        remember(force)
        frame = await force.ask("flow", "top", sort="rate", limit=2)
        assert [one["name"] for one in frame["publishers"]] == ["client c", "client b"]
        assert frame["publishers_more"] == 2 and frame["connections"] == 4
        assert frame["in_rate"] == pytest.approx(1 + 1 + 2 + 3)
        assert "keys" not in frame
        by_name = await force.ask("flow", "top", sort="name", limit=10)
        assert [one["name"] for one in by_name["publishers"]] == [
            "client /", "client a", "client b", "client c"
        ]  # fmt: skip


async def test_alarms_are_there_once(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        alone = (await force.ask_one(0, "flow", "alarms"))["alarms"]
        assert (await force.ask("flow", "alarms"))["alarms"] == alone
        force.beds[2].broker.alarm_manager.set("disk", "disk is full")
        rows = {one["resource"]: one for one in (await force.ask("flow", "alarms"))["alarms"]}
        assert rows["disk"]["is_set"] and not rows["memory"]["is_set"]
        assert (await force.ask("status"))["alarms"] == {"alarm:disk": "disk is full"}
        assert (await force.ask("objects", "node"))["items"][0]["machine"]["disk_free_alarm"]


async def test_why_is_of_the_worker_that_knows(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        # Where nobody publishes that is so at all of them, and of no worker.
        assert (await force.ask("why"))["text"] == "nothing is blocked: no client publishes"
        remember(force)
        for worker, vhost in ((0, "a"), (2, "c")):
            answer = await force.ask("why", kind="connection", name=f"client {vhost}")
            assert answer["explanation"]["subject"] == f"conn:client {vhost}"
            own = await force.ask_one(worker, "why", kind="connection", name=f"client {vhost}")
            assert answer["explanation"].pop("worker") == worker
            assert answer == own
        nobody = await force.ask("why", kind="connection", name="client d")
        assert nobody["exit_status"] == 2
        names = [f"client {vhost}" for vhost in ("a", "b", "c")]
        assert set(names) <= set(nobody["explanation"]["close_names"])
        assert all(name in nobody["text"] for name in names)
        free = await force.ask("why")
        assert free["explanation"]["unaffected"] == 4 and free["exit_status"] == 0
        assert free["text"].splitlines()[0].endswith("(worker 0)")
        refusal = "takes no name"
        assert refusal in await force.refusal("why", kind="publish", name="x")
        memory = await force.ask("why", kind="memory")
        assert [one["worker"] for one in memory["explanation"]["workers"]] == [0, 1, 2]
        assert " worker 2 " in memory["text"] and memory["text"].startswith("memory: ")


async def test_the_store_has_pages_below_its_virtual_hosts(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        found = await force.ask("store", limit=1)
        assert (found["vhosts"], found["total"], found["next"]) == ([], 0, "")


def test_rules() -> None:
    rows: list[Row] = [
        {"n": 1, "of": {"x": 1.5, "y": [1, 2]}, "rows": [{"kind": "a", "count": 1}], "b": True},
        {"n": 2, "of": {"x": 1.0, "y": [3, 4]}, "rows": [{"kind": "b", "count": 2}], "b": False},
        {"n": 3, "of": {"z": 1}, "rows": [{"kind": "a", "count": 5}], "b": True},
    ]
    assert added(rows) == {
        "n": 6,
        "of": {"x": 2.5, "y": [4, 6], "z": 1},
        "rows": [{"kind": "a", "count": 6}, {"kind": "b", "count": 2}],
        "b": True,
    }
    assert merged(rows, {"n": max}) == rows[0] | {"n": 3}
    assert soonest([None, 3.0, 2.0]) == 2.0 and soonest([None]) is None
    assert either([{"a": 1}, {"a": 2, "b": 3}]) == {"a": 1, "b": 3}
    assert closed(["x; connections closed: 1", "x; connections closed: 12"]).endswith(": 13")
    assert closed(["done", "done"]) == "done"
