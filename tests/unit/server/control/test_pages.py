"""Every listing of the control socket comes in pages that hold all of it together."""

from typing import Any

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.admin import users
from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed
from tests.unit.broker.stream.test_stream_groups import ask
from tests.unit.broker.stream.test_streams import made
from tests.unit.server.control.asked import asked

COUNT = 23
HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo"


def filled() -> Bed:
    """A broker with COUNT of everything, and of most things one more that is always there."""
    bed = Bed()
    reader = made(bed)
    for number in range(COUNT):
        peer = bed.connect(f"peer{number:02}")
        peer.call(1, m.QueueDeclare(f"q{number:02}"), m.QueueDeclareOk)
        peer.publish(f"q{number:02}", *(b"x" for _ in range(number % 4)))
        ask(reader, "stream.group.register", group=f"g{number:02}")
        name = f"user{number:02}"
        users.add(bed.broker, name, HASH, "argon2id", ())
        asked(bed.broker, {"op": "vhosts", "do": "add", "name": f"v{number:02}"})
        rights = {"configure": "", "write": "", "read": ""}
        asked(bed.broker, {"op": "permissions", "do": "set", "user": name, "vhost": "/", **rights})
        topic = {"user": name, "vhost": "/", "exchange": "amq.topic", "write": "", "read": ""}
        asked(bed.broker, {"op": "permissions", "do": "set-topic", **topic})
        limit = {"kind": "user", "name": name, "limits": {"max-channels": number}}
        asked(bed.broker, {"op": "limits", "do": "set", **limit})
        policy = {"name": f"p{number:02}", "pattern": "", "definition": {"max-length": 1000}}
        asked(bed.broker, {"op": "policies", "do": "set", "policy": policy})
    bed.run()
    return bed


def whole_answer(bed: Bed, question: dict[str, object], limit: int) -> tuple[list[Any], Any]:
    """The rows of all pages, and the first page."""
    first: Any = None
    rows: list[Any] = []
    after = ""
    while True:
        page: Any = asked(bed.broker, question | {"limit": limit, "after": after})
        fields = page if isinstance(page, dict) else {
            name: getattr(page, name) for name in page.__struct_fields__
        }  # fmt: skip
        first = first or fields
        found = [one for name in ROWS if name in fields for one in fields[name]]
        assert len(found) <= limit
        rows += found
        after = fields["next"]
        if after == "":
            return rows, first
        assert len(found) == limit


ROWS = (
    *("queues", "edges", "accounts", "readers", "connections", "users", "vhosts"),
    *("permissions", "topic_permissions", "limits", "policies", "rows"),
)


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ({"op": "queues"}, COUNT + 1),
        ({"op": "queues", "sort": "ready"}, COUNT + 1),
        ({"op": "queues", "sort": "name"}, COUNT + 1),
        ({"op": "queues", "do": "readers"}, COUNT),
        ({"op": "queues", "do": "readers", "sort": "name"}, COUNT),
        ({"op": "flow", "do": "edges"}, None),
        ({"op": "flow", "do": "edges", "sort": "name"}, None),
        ({"op": "flow", "do": "accounts", "sort": "name"}, COUNT + 4),
        ({"op": "connections"}, COUNT + 1),
        ({"op": "users"}, COUNT + 1),
        ({"op": "vhosts"}, COUNT + 1),
        ({"op": "permissions"}, 3 * COUNT + 1),
        ({"op": "limits"}, COUNT),
        ({"op": "policies"}, COUNT),
    ],
    ids=lambda one: " ".join(map(str, one.values())) if isinstance(one, dict) else "",
)
def test_all_pages_together_are_the_listing(
    question: dict[str, object], count: int | None, bed: Bed
) -> None:
    rows, _ = whole_answer(bed, question, 10_000)
    assert count is None or len(rows) == count
    assert len(rows) > COUNT - 1
    for limit in (1, 5, len(rows), len(rows) - 1):
        found, first = whole_answer(bed, question, limit)
        assert found == rows, f"pages of {limit}"
        assert first.get("matching", first["total"]) == len(rows)


@pytest.fixture(scope="module")
def bed() -> Bed:
    return filled()


def test_accounts_by_size_page_their_connections(bed: Bed) -> None:
    question: dict[str, object] = {"op": "flow", "do": "accounts", "sort": "size"}
    first: Any = asked(bed.broker, question | {"limit": 5})
    above = [row.level for row in first.accounts if row.level != "connection"]
    assert above == ["node", "vhost", "user"]
    assert (first.total, first.connections_more) == (COUNT + 1, COUNT - 4)
    seen: list[str] = []
    after = ""
    while True:
        page: Any = asked(bed.broker, question | {"limit": 5, "after": after})
        seen += [row.name for row in page.accounts if row.level == "connection"]
        after = page.next
        if after == "":
            break
    assert len(seen) == len(set(seen)) == COUNT + 1


def test_causes_of_a_queue_come_in_pages() -> None:
    bed = Bed()
    for number in range(7):
        peer = bed.connect(f"peer{number}")
        peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
        peer.publish("q", *(b"x" for _ in range(number + 1)))
    bed.run()
    for sort in ("size", "name"):
        question: dict[str, object] = {
            "op": "flow", "do": "accounts", "queue": "q", "sort": sort
        }  # fmt: skip
        rows, first = whole_answer(bed, question, 3)
        assert first["total"] == len({row.account for row in rows}) == len(rows) == 7
    assert [row.messages for row in whole_answer(bed, question | {"sort": "size"}, 2)[0]] == [
        7, 6, 5, 4, 3, 2, 1
    ]  # fmt: skip


def test_a_place_in_another_order_is_refused(bed: Bed) -> None:
    page: Any = asked(bed.broker, {"op": "queues", "sort": "ready", "limit": 1})
    with pytest.raises(OperatorError, match="from a listing by 'ready', not by 'name'"):
        asked(bed.broker, {"op": "queues", "sort": "name", "after": page["next"]})


def test_status_says_sums_however_many_there_are(bed: Bed) -> None:
    status: Any = asked(bed.broker, {"op": "status"})
    assert status["connections"] == {"running": COUNT + 1}
    assert status["queues"].count == COUNT + 1
    assert status["queues"].messages_ready == sum(number % 4 for number in range(COUNT))
