"""Listings of several workers: their pages together are the sorted union of what workers have."""

from pathlib import Path
from typing import Any

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.stream.test_stream_groups import ask
from tests.unit.server.workers.workforce import Row, Workforce, workforce

VHOSTS = (("/", "a"), ("b", "c"), ("d",))


async def filled(force: Workforce) -> None:
    """Each virtual host with clients, queues that hold different numbers, and more."""
    for number, vhost in enumerate(force.places.places):
        bed = force.bed_of(vhost)
        for place in range(3):
            peer = bed.connect(f"{vhost}{place}", vhost=vhost)
            for index in range(4):
                name = f"q{place}{index}"
                peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
                peer.publish(name, *(b"x" for _ in range((number * 5 + index) % 3)))
            peer.say(1, m.BasicConsume(f"q{place}0"), m.QueueBind(f"q{place}1", "amq.topic", "key"))
        reader = bed.connect(f"{vhost}reader", vhost=vhost, channels=2)
        table: Table = {"x-queue-type": "stream"}
        reader.call(1, m.QueueDeclare("s", durable=True, arguments=table), m.QueueDeclareOk)
        for group in ("one", "two", "three"):
            ask(reader, "stream.group.register", group=group)
        reader.publish("s", *(b"x" for _ in range(number)))
        bed.run()
        limit = {"kind": "vhost", "name": vhost, "limits": {"max-queues": 100}}
        await force.ask("limits", "set", **limit)
        policy = {"name": "p", "vhost": vhost, "pattern": "x", "definition": {"max-length": 9}}
        await force.ask("policies", "set", policy=policy)
        streams = {"name": "super", "vhost": vhost, "partitions": 2}
        await force.ask("super-streams", "add", **streams)
    await force.ask("limits", "set", kind="user", name="guest", limits={"max-channels": 99})


async def pages(force: Workforce, names: tuple[str, ...], limit: int, question: Row) -> list[Any]:
    """The rows of all pages."""
    rows: list[Any] = []
    after = ""
    while True:
        page = await force.ask(**question, limit=limit, after=after)
        assert "keys" not in page and "shared" not in page
        found = [one for name in names for one in page[name]]
        assert len(found) <= limit
        rows += found
        after = page["next"]
        if after == "":
            return rows
        assert len(found) == limit


LISTINGS: list[tuple[Row, tuple[str, ...]]] = [
    ({"op": "connections"}, ("connections",)),
    ({"op": "queues", "sort": "ready"}, ("queues",)),
    ({"op": "queues", "sort": "bytes"}, ("queues",)),
    ({"op": "queues", "sort": "name"}, ("queues",)),
    ({"op": "queues", "do": "readers"}, ("readers",)),
    ({"op": "flow", "do": "edges"}, ("edges",)),
    ({"op": "flow", "do": "edges", "sort": "name"}, ("edges",)),
    ({"op": "flow", "do": "accounts", "sort": "name"}, ("accounts",)),
    ({"op": "users"}, ("users",)),
    ({"op": "vhosts"}, ("vhosts",)),
    ({"op": "permissions"}, ("permissions", "topic_permissions")),
    ({"op": "limits"}, ("limits",)),
    ({"op": "policies"}, ("policies",)),
    ({"op": "super-streams"}, ("partitions",)),
    *(({"op": "objects", "do": kind}, ("items",)) for kind in (
        "connections", "channels", "consumers", "queues", "exchanges", "bindings",
    )),
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "names"), LISTINGS, ids=[" ".join(map(str, one.values())) for one, _ in LISTINGS]
)
async def test_all_pages_together_are_the_listing(
    question: Row, names: tuple[str, ...], tmp_path: Path
) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await filled(force)
        whole = await pages(force, names, 10_000, question)
        own = [
            row
            for worker in range(len(force.beds))
            for page in [await force.ask_one(worker, **question, limit=10_000)]
            for name in names
            for row in page[name]
        ]
        alike = {"users": "name", "limits": "name"}.get(names[0])
        if question.get("do") == "accounts":
            assert len(whole) == len(own) - 2
        elif alike:
            assert [one[alike] for one in whole] == list(dict.fromkeys(one[alike] for one in whole))
            assert {one[alike] for one in whole} == {one[alike] for one in own}
        else:
            assert sorted(map(str, whole)) == sorted(map(str, own))
        first = await force.ask(**question, limit=1)
        assert first.get("matching", first["total"]) == len(whole)
        for limit in (1, 3, len(whole), max(1, len(whole) - 1)):
            assert await pages(force, names, limit, question) == whole, f"pages of {limit}"
