"""`penstock flow` against a running broker: what it prints, its JSON, its exit status."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.client.io_blocking import connect
from tests.patience import until
from tests.unit.cli.broker_process import ENVIRONMENT, PENSTOCK, BrokerProcess

CONFIG = """
[[users]]
name = "guest"
password = "guest"
[[rates]]
user = "guest"
messages = 1000000
"""


EDGE_KEYS = (
    "sender receiver vhost kind window_messages balance_messages window_bytes balance_bytes "
    "in_flight_messages in_flight_bytes deferred_messages deferred_bytes is_blocked by reason "
    "blocked_for_ns stops blocked_ns free_messages parked_messages parked_bytes "
    "parked_disk_bytes parked_for_ns depth_bytes room_bytes"
)
ACCOUNT_KEYS = (
    "name level depth debt_messages debt_bytes stored_messages stored_bytes high_messages "
    "low_messages high_bytes low_bytes is_held held_by held_for_ns is_closed kept_messages "
    "kept_bytes paged_messages paged_bytes parked_messages parked_bytes "
    "parked_disk_bytes unfinished_bytes pending_messages pending_by pending_for_ns"
)


@pytest.fixture(scope="module")
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """A client called web-7 with three messages in orders, one of them unanswered."""
    connection = broker.connect(name="web-7 [bold]")
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "orders", b"x" * 100)
    channel.basic_get("orders")
    # Names are known from the first round of snapshots on.
    until(lambda: is_known(broker), "a round of snapshots", lambda: connection.sleep(0.1))
    yield channel
    connection.close()


def is_known(broker: BrokerProcess) -> bool:
    """Does everything that the client is have its name?"""
    accounts = rows(broker.json("accounts"), "accounts")
    return (
        "chan:web-7 [bold]/1" in broker.flow("edges").out
        and [row["stored_messages"] for row in accounts] == [3, 3, 3, 3]
        and "/orders" in broker.flow("top", "--once").out
    )


def rows(answer: dict[str, object], key: str) -> list[dict[str, object]]:
    found = answer[key]
    assert isinstance(found, list)
    return found


def test_edges_show_every_hop(broker: BrokerProcess, channel: BlockingChannel) -> None:
    said = broker.flow("edges")
    assert (said.error, said.status) == ("", 0)
    lines = said.out.splitlines()
    assert lines[0].split()[:3] == ["SENDER", "RECEIVER", "STATE"]
    assert any("chan:web-7 [bold]/1" in line and "queue:/orders" in line for line in lines)
    assert lines[-1] == "2 hops, 0 blocked"
    assert "\x1b" not in said.out, "no colour into a pipe"
    assert all(line == line.rstrip() for line in lines)


def test_edges_as_json_have_stable_keys(broker: BrokerProcess, channel: BlockingChannel) -> None:
    answer = broker.json("edges", "--sort", "name", "--limit", "1")
    assert (answer["matching"], answer["total"], answer["blocked"]) == (2, 2, 0)
    (edge,) = rows(answer, "edges")
    assert list(edge) == EDGE_KEYS.split()
    assert (edge["kind"], edge["vhost"], edge["window_messages"]) == ("channel_queue", "/", 400)
    assert (
        "… 1 more of 2 hops; --limit shows more, --format json all"
        in broker.flow("edges", "--limit", "1").out
    )


def test_accounts_show_the_tree_and_what_is_stored(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    said = broker.flow("accounts")
    assert (said.error, said.status) == ("", 0)
    names = [line.split("  ")[0] or line.strip().split("  ")[0] for line in said.out.splitlines()]
    assert names[2:] == ["node", "vhost:/", "user:guest@/", "conn:web-7 [bold]"]
    tree = rows(broker.json("accounts"), "accounts")
    assert [(row["level"], row["stored_messages"]) for row in tree] == [
        ("node", 3),
        ("vhost", 3),
        ("user", 3),
        ("connection", 3),
    ]
    assert set(tree[0]) == set(ACCOUNT_KEYS.split())


def test_accounts_of_a_queue_name_who_caused_what_rests_there(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    answer = broker.json("accounts", "--of", "queue", "orders")
    (row,) = rows(answer, "rows")
    assert (row["account"], row["ready"], row["unanswered"]) == ("conn:web-7 [bold]", 2, 1)
    assert (row["messages"], row["share"], answer["queue"]) == (3, 1.0, "queue:/orders")
    assert "conn:web-7 [bold]" in broker.flow("accounts", "--of", "queue", "/orders").out
    said = broker.flow("accounts", "--of", "queue", "nope")
    assert said.status == 2 and "no queue 'nope'" in said.error


def test_accounts_show_what_reader_groups_keep_while_there_are_any(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    assert "KEPT" not in broker.flow("accounts").out
    with connect(broker.url) as connection:
        mine = connection.channel()
        mine.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
        mine.request("stream.group.register", {"queue": "events", "group": "etl"})
        for _ in range(5):
            channel.basic_publish("", "events", b"x" * 100)
        said = broker.flow("accounts").out.splitlines()
        mine.delete_queue("events")
    assert said[0].split()[-4:] == ["KEPT", "KEPT", "BYTES", "STATE"]
    (line,) = [one for one in said if "web-7" in one]
    assert " 5 " in line and line.rstrip().endswith("bytes"), line
    assert "KEPT" not in broker.flow("accounts").out


def test_alarms(broker: BrokerProcess) -> None:
    said = broker.flow("alarms")
    assert (said.error, said.status) == ("", 0)
    assert [line.split()[0] for line in said.out.splitlines()] == [
        "ALARM",
        said.out.splitlines()[1],
        "disk",
        "memory",
    ]
    found = rows(broker.json("alarms"), "alarms")
    keys = "resource node is_set set_for_ns now_bytes limit_bytes clear_bytes stopped mode action"
    assert [list(row) for row in found] == [keys.split()] * 2


def test_set_without_a_change_lists_all_settings(broker: BrokerProcess) -> None:
    said = broker.flow("set")
    assert (said.error, said.status) == ("", 0)
    assert "rate.connection.messages" in said.out and "memory.high" in said.out
    found = rows(broker.json("set"), "settings")
    assert all(list(one) == ["key", "value", "unit", "meaning", "reverts_in_s"] for one in found)
    assert [one["key"] for one in found] == sorted(str(one["key"]) for one in found)


def test_set_changes_several_at_once_or_none(broker: BrokerProcess) -> None:
    said = broker.flow("set", "rate.connection.messages=5000/s", "rate.burst=1s", "--for", "1s")
    assert said.out.splitlines() == [
        "rate.connection.messages   off -> 5000/s   (back in 1.0 s)",
        "rate.burst   50ms -> 1s   (back in 1.0 s)",
    ]
    assert (said.error, said.status) == ("", 0)
    wrong = broker.flow("set", "rate.vhost.messages:/=7/s", "rate.conection.messages=5/s")
    assert wrong.status == 2 and wrong.out == ""
    assert "did you mean rate.connection.messages" in wrong.error
    settings = {str(one["key"]): one for one in rows(broker.json("set"), "settings")}
    assert "rate.vhost.messages:/" not in settings


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("set", "novalue"), "'novalue' is not KEY=VALUE"),
        (("set", "rate.burst=1s", "rate.burst=2s"), "given twice"),
        (("set", "--for", "1s"), "--for needs something to set"),
        (("set", "rate.burst=1s", "--for", "soon"), "'soon' is not a duration"),
        (("set", "rate.connection.bytes=much"), "rate.connection.bytes=much: write a rate"),
        (("edges", "--vhost", "x"), "no vhost 'x'; one of: /"),
        (("accounts", "--vhost", "x"), "no vhost 'x'; one of: /"),
    ],
)
def test_an_operators_fault_is_one_line(
    broker: BrokerProcess, words: tuple[str, ...], text: str
) -> None:
    said = broker.flow(*words)
    assert said.status == 2 and text in said.error and "Traceback" not in said.error
    assert said.out == ""


def test_top_prints_one_frame(broker: BrokerProcess, channel: BlockingChannel) -> None:
    said = broker.flow("top", "--once")
    assert (said.error, said.status) == ("", 0)
    heads = [line.split()[0] for line in said.out.splitlines() if line[:1].isupper()]
    assert heads == ["PUBLISHERS", "QUEUES", "CONSUMERS"]
    assert said.out.startswith("penstock top  penstock")
    frame = broker.json("top")
    (queue,) = rows(frame, "queues")
    assert (queue["name"], queue["ready"], queue["unacked"]) == ("/orders", 2, 1)
    assert {"publishers", "consumers", "used_bytes", "limit_bytes", "alarms"} <= set(frame)


def test_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As a process, with what people see."""
    done = subprocess.run(
        [*PENSTOCK, "flow", "edges", "--control", str(tmp_path / "nowhere.sock")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=200,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("✘ no broker answers at") and "Traceback" not in done.stderr
