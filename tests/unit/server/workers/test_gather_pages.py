"""Listings of several workers: their pages together are the sorted union of what workers have."""

from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.steps import whole
from penstock.broker.admin.paging import Pager
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.server.workers.gather_pages import Cursor, Page, sums_of
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


async def test_all_pages_together_are_the_listing(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        await filled(force)
        for question, names in LISTINGS:
            listed = await pages(force, names, 10_000, question)
            await check_union(force, question, names, listed)
            first = await force.ask(**question, limit=1)
            assert first.get("matching", first["total"]) == len(listed), question
            for limit in (1, 3, len(listed), max(1, len(listed) - 1)):
                found = await pages(force, names, limit, question)
                assert found == listed, f"{question} in pages of {limit}"


async def check_union(
    force: Workforce, question: Row, names: tuple[str, ...], listed: list[Any]
) -> None:
    """All rows of all workers are `listed`, and what they have alike is there once."""
    own = [
        row
        for worker in range(len(force.beds))
        for page in [await force.ask_one(worker, **question, limit=10_000)]
        for name in names
        for row in page[name]
    ]
    if names[0] in ("users", "limits"):
        pairs = [(one.get("kind"), one["name"]) for one in listed]
        assert pairs == list(dict.fromkeys(pairs)), question
        assert set(pairs) == {(one.get("kind"), one["name"]) for one in own}, question
    elif question.get("do") == "accounts":
        assert len(listed) == len(own) - 2
        assert [one["name"] for one in listed if one["depth"] == 0] == ["node"]
    else:
        assert sorted(map(str, listed)) == sorted(map(str, own)), question
    if question.get("sort") == "ready":
        ready = [one["messages_ready"] for one in listed]
        assert ready == sorted(ready, reverse=True) and len(set(ready)) > 2


# -- the cut, with pages of any workers ----------------------------------------------------------

KEYS = st.tuples(st.integers(0, 3), st.text("ab", max_size=2))
WORKERS = st.lists(st.lists(KEYS, max_size=8), min_size=1, max_size=4)


def worker_page(keys: list[Any], worker: int, after: str, limit: int) -> Row:
    """What a worker answers that has rows with these places in an order."""
    pager: Pager[str] = Pager(limit, after, "o")
    seen: dict[Any, int] = {}
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        pager.offer(key, f"{worker} {key} {seen[key]}")
    answer = {"rows": pager.rows(), "keys": pager.keys(), "order": "o", "shared": 0}
    answer |= {"total": pager.total, "next": pager.next()}
    found: Row = msgspec.json.decode(msgspec.json.encode(answer))
    return found


def page_of(workers: list[list[Any]], after: str, limit: int) -> Page:
    cursor: Cursor | None = Cursor("", None, [0] * len(workers))
    if after != "":
        cursor = Cursor.read(after, len(workers))
    assert cursor is not None
    answers = {
        worker: worker_page(keys, worker, "" if after == "" else cursor.of(worker), limit)
        for worker, keys in enumerate(workers)
    }
    page = Page(answers, ("rows",), limit, cursor, None)
    whole(page.steps())
    return page


@given(WORKERS, st.integers(1, 9))
def test_pages_of_any_size_are_the_sorted_union(workers: list[list[Any]], limit: int) -> None:
    expected = sorted(
        (key, worker, place)
        for worker, keys in enumerate(workers)
        for place, key in enumerate(sorted(keys))
    )
    rows: list[str] = []
    after = ""
    while True:
        page = page_of(workers, after, limit)
        assert page.total == len(expected) and len(page.rows["rows"]) <= limit
        rows += page.rows["rows"]
        after = page.next
        if after == "":
            break
        assert len(page.rows["rows"]) == limit
    assert len(rows) == len(set(rows)) == len(expected)
    assert [row.split(" ", 1)[0] for row in rows] == [str(worker) for _, worker, _ in expected]
    assert [row.rsplit(" ", 1)[0].split(" ", 1)[1] for row in rows] == [
        str(key) for key, _, _ in expected
    ]


@given(
    st.lists(st.sets(KEYS, max_size=8), min_size=1, max_size=4),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), KEYS), max_size=30),
)
def test_what_is_there_all_the_time_is_on_one_page(
    workers: list[set[Any]], limit: int, changes: list[tuple[int, bool, Any]]
) -> None:
    """Others come and go between two pages, one at a time."""
    lasting = [
        set(keys) - {key for at, _, key in changes if at % len(workers) == worker}
        for worker, keys in enumerate(workers)
    ]
    left = list(changes)
    rows: list[str] = []
    after = ""
    while True:
        page = page_of([sorted(keys) for keys in workers], after, limit)
        rows += page.rows["rows"]
        after = page.next
        if after == "":
            break
        if left:
            at, is_new, key = left.pop()
            there = workers[at % len(workers)]
            (there.add if is_new else there.discard)(key)
    for worker, keys in enumerate(lasting):
        for key in keys:
            assert rows.count(f"{worker} {key} 1") == 1


@given(
    st.sets(st.integers(0, 9)),
    st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4),
    st.integers(1, 9),
)
def test_rows_that_all_have_alike_are_there_once(
    alike: set[int], own: list[set[int]], limit: int
) -> None:
    """Users with a limit, say, between virtual hosts of one worker each."""
    count = len(own)
    shown: list[Any] = []
    total = 0
    after = ""
    while True:
        cursor = Cursor("", None, [0] * count) if after == "" else Cursor.read(after, count)
        assert cursor is not None
        answers: dict[int, Row] = {}
        for worker, keys in enumerate(own):
            pager: Pager[Row] = Pager(limit, "" if after == "" else cursor.of(worker), "o")
            for key in sorted(keys | alike):
                place = (key, worker + 1) if key not in alike else (key, 0)
                pager.offer(place, {"place": place, "count": 1})
            rows = [msgspec.Raw(msgspec.json.encode(one)) for one in pager.rows()]
            places = [list(key) for key, _ in pager.placed()]
            answers[worker] = {"rows": rows, "keys": places, "order": "o", "next": pager.next()}
            answers[worker] |= {"total": pager.total, "shared": len(alike)}
        page = Page(answers, ("rows",), limit, cursor, sums_of("count"))
        whole(page.steps())
        found = page.rows["rows"]
        shown += [one if isinstance(one, dict) else msgspec.json.decode(one) for one in found]
        total, after = page.total, page.next
        if after == "":
            break
        assert len(found) == limit
    expected = [((key, 0), count) for key in alike]
    expected += [
        ((key, worker + 1), 1)
        for worker, keys in enumerate(own)
        for key in keys
        if key not in alike
    ]
    assert [(tuple(one["place"]), one["count"]) for one in shown] == sorted(expected)
    assert total == len(expected)


def test_a_place_of_other_workers_is_refused() -> None:
    assert Cursor.read('["o",[1],[1,2]]', 3) is None
    assert Cursor.read("x", 2) is None
    assert Cursor.read('["o",[1],[1,2]]', 2) is not None


async def test_a_place_of_a_listing_in_another_order_is_refused(tmp_path: Path) -> None:
    async with workforce(tmp_path, ("/",), ("a",)) as force:
        for bed, vhost in zip(force.beds, ("/", "a"), strict=True):
            bed.connect(vhost=vhost).call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
        page = await force.ask("queues", sort="ready", limit=1)
        said = await force.refusal("queues", sort="name", after=page["next"])
        assert "from a listing by 'ready', not by 'name'" in said
        assert "begin anew without it" in await force.refusal("queues", after="x")
        assert "must be 1..10000" in await force.refusal("queues", limit=0)


async def test_long_listings_are_merged_in_steps(tmp_path: Path) -> None:
    """Another asker waits for one step and not for 20,000 rows."""
    async with workforce(tmp_path, ("/",), ("a",), ("b",)) as force:
        for vhost, worker in force.places.places.items():
            broker = force.beds[worker].broker
            there = broker.vhosts[vhost]
            for number in range(2_000):
                there.add_queue(broker.make_queue(there, f"q{number:05}", False, False, "", {}))
        found = await force.ask("queues", sort="name", limit=5_000)
        assert len(found["queues"]) == 5_000 and found["total"] == 6_000
    page = page_of([[(0, "a")] * 2_000 for _ in range(4)], "", 5_000)
    assert len(page.rows["rows"]) == 5_000
    again = Page(
        {worker: worker_page([(0, "a")] * 2_000, worker, "", 5_000) for worker in range(4)},
        ("rows",),
        5_000,
        Cursor("", None, [0] * 4),
        None,
    )
    assert sum(1 for _ in again.steps()) >= 5_000 // 64 - 4
