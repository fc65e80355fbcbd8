"""`penstock queues` against a running broker: what it lists, pausing and resuming, its refusals."""

import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import msgspec
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.broker.admin.answers import QueueRow
from penstock.cli.queues import STREAM_COLUMNS, columns_used, queues, stream_cells
from penstock.cli.tables import console, show, table
from penstock.client.io_blocking import connect
from penstock.protocol.values import Table
from tests.patience import PATIENCE_S, until
from tests.unit.cli.broker_process import BrokerProcess, Said, broker_process


@pytest.fixture(scope="module")
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """Twelve messages went to `short`, which keeps five; three are in `orders`."""
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.queue_declare("short [red]", arguments={"x-max-length": 5})
    channel.confirm_delivery()
    for _ in range(12):
        channel.basic_publish("", "short [red]", b"x" * 100)
    for _ in range(3):
        channel.basic_publish("", "orders", b"x" * 100)
    yield channel
    connection.close()


def said(broker: BrokerProcess, *words: str) -> Said:
    """`penstock queues WORDS`, in this process; options of the group are given first."""
    at = 1 if words and not words[0].startswith("-") else 0
    return broker.said(queues, *words[:at], options=words[at:])


def listed(broker: BrokerProcess, *words: str) -> list[dict[str, object]]:
    answer = msgspec.json.decode(said(broker, *words, "--format", "json").out)
    rows = answer["queues"]
    assert isinstance(rows, list)
    return rows


def test_a_broker_without_queues_says_so(tmp_path: Path) -> None:
    with broker_process(tmp_path) as empty:
        assert said(empty) == Said("no queues\n", "", 0)


def test_queues_are_listed_with_rules_and_what_they_gave_up(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    done = said(broker)
    assert (done.error, done.status) == ("", 0)
    lines = done.out.splitlines()
    assert lines[0].split()[:4] == ["QUEUE", "STATE", "READY", "UNACKED"]
    (short,) = (line for line in lines if "/short [red]" in line)
    assert "running" in short and "max-length 5" in short and "maxlen 7" in short
    assert "\x1b" not in done.out, "no colour into a pipe"


def test_as_json_with_stable_keys(broker: BrokerProcess, channel: BlockingChannel) -> None:
    first, second = listed(broker, "--sort", "ready")
    assert (first["name"], first["messages_ready"]) == ("/short [red]", 5)
    assert first["drops"] == {"maxlen": 7}
    assert (second["name"], second["messages_ready"], second["state"]) == ("/orders", 3, "running")
    assert set(first) == set(QueueRow.__struct_fields__)


def test_a_list_can_be_cut_and_says_how_much_is_missing(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    done = said(broker, "--limit", "1", "--sort", "name")
    assert "/orders" in done.out and "/short" not in done.out
    assert done.out.splitlines()[-1].startswith("… 1 more")
    assert [row["name"] for row in listed(broker, "--limit", "1", "--sort", "name")] == ["/orders"]


def test_a_paused_queue_takes_and_gives_nothing_until_it_is_resumed(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    assert said(broker, "pause", "orders") == Said("/orders is paused\n", "", 0)
    assert said(broker, "pause", "/orders").out == "/orders is paused, as it was\n"
    method, _, _ = channel.basic_get("orders")
    assert method is None, "nothing is given"
    channel.basic_publish("", "orders", b"taken all the same")
    (orders,) = (row for row in listed(broker) if row["name"] == "/orders")
    assert (orders["state"], orders["messages_ready"]) == ("paused", 4)
    answer = msgspec.json.decode(said(broker, "resume", "orders", "--format", "json").out)
    assert answer == {"queue": "/orders", "is_paused": False, "was_paused": True}
    method, _, body = channel.basic_get("orders", auto_ack=True)
    assert method is not None and body == b"x" * 100
    assert said(broker, "resume", "orders").out == "/orders is running, as it was\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("pause", "nobody"), "no queue 'nobody'; `penstock queues` lists them"),
        (("--vhost", "nowhere"), "no vhost 'nowhere'; one of: /"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(
    broker: BrokerProcess, channel: BlockingChannel, words: tuple[str, ...], text: str
) -> None:
    done = said(broker, *words)
    assert (done.out, done.status) == ("", 2)
    assert text in done.error


def test_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    absent = BrokerProcess(1, str(tmp_path / "control.sock"))
    done = said(absent, "pause", "orders")
    assert done.status == 2 and str(tmp_path) in done.error


def test_exchanges_that_drop_duplicates_say_how_many(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    """Those behind a delayed exchange, too; the listing of one queue has none."""
    known = {"x-cache-size": 10}
    channel.exchange_declare("once", "x-message-deduplication", arguments=known)
    delayed = {**known, "x-delayed-type": "x-message-deduplication"}
    channel.exchange_declare("later [b]", "x-delayed-message", arguments=delayed)
    for exchange in ("once", "later [b]"):
        channel.queue_bind("orders", exchange)
    for number, exchange in ((0, "once"), (0, "once"), (1, "once"), (0, "once"), (0, "later [b]")):
        headers = {"x-deduplication-header": number}
        channel.basic_publish(exchange, "", b"x", pika.BasicProperties(headers=headers))
    done = said(broker)
    assert done.out.splitlines()[-2:] == [
        "exchange /once: 2 duplicates dropped; it knows 2 of at most 10 values",
        "exchange /later [b]: 0 duplicates dropped; it knows 1 of at most 10 values",
    ]
    answer = msgspec.json.decode(said(broker, "--format", "json").out)
    assert answer["exchanges"][0] == {
        "name": "/once",
        "vhost": "/",
        "duplicates": 2,
        "known": 2,
        "known_max": 10,
    }


def test_a_group_that_leases_is_ended_and_its_messages_are_ready(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    channel.queue_declare("leased")
    for _ in range(3):
        channel.basic_publish("", "leased", b"x")
    with connect(broker.url) as connection:
        lease: Table = {"queue": "leased", "group": "jobs", "start": 0, "max_messages": 2}
        assert connection.channel().request("lease.acquire", lease)["count"] == 2
    done = said(broker, "release", "leased", "jobs")
    assert done == Said("/leased: group jobs has ended; 2 messages ready again\n", "", 0)
    (row,) = [row for row in listed(broker) if row["name"] == "/leased"]
    assert (row["messages_ready"], row["messages_unacknowledged"]) == (3, 0)
    again = said(broker, "release", "leased", "jobs")
    assert (again.status, "no group 'jobs'" in again.error) == (2, True)


def test_streams_have_a_table_that_fits_a_terminal(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    arguments: Table = {
        "x-queue-type": "stream", "x-max-length-bytes": 20_000_000, "x-max-age": "7D",
    }  # fmt: skip
    channel.queue_declare("orders.of.every.shop", durable=True, arguments=arguments)
    with connect(broker.url) as connection:
        group: Table = {"queue": "orders.of.every.shop", "group": "jobs", "offset": 0}
        connection.channel().request("stream.group.register", group)
        lines = said(broker).out.splitlines()
        head = next(number for number, line in enumerate(lines) if line.startswith("STREAM"))
        assert lines[head].split()[1:5] == ["STATE", "OFFSETS", "SEGMENTS", "SIZE"]
        (row,) = (line for line in lines[head:] if "/orders.of.every.shop" in line)
        assert row.split()[1:4] == ["running", "0..0", "0"]
        assert "max-length-bytes 20.0 MB, max-age 168h" in row and "jobs" in row
        assert "/orders.of.every.shop" not in "".join(lines[:head])
        assert "DEAD LETTERS" not in lines[0], "no queue has any"
        found = [one for one in listed(broker) if one["name"] == "/orders.of.every.shop"]
        rows = msgspec.convert(found, list[QueueRow])
        printed = StringIO()
        shown = table(*columns_used(STREAM_COLUMNS, [stream_cells(row) for row in rows]))
        show(console(printed, 120), shown)
        printed_lines = printed.getvalue().splitlines()
        assert max(map(len, printed_lines)) <= 120
        assert "/orders" in printed.getvalue() and len(printed_lines) <= 6
    channel.queue_delete("orders.of.every.shop")


def test_a_group_that_pins_a_stream_is_ended(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    with connect(broker.url) as connection:
        asking = connection.channel()
        asking.request("stream.group.register", {"queue": "log", "group": "jobs", "offset": 0})
        done = said(broker, "release", "log", "jobs")
        assert done == Said("/log: group jobs has ended\n", "", 0)
        assert asking.request("stream.groups", {"queue": "log"}) == {"groups": []}
    assert said(broker, "release", "log", "jobs").status == 2


def test_readers_show_how_far_behind_they_are_and_whom_they_hold(tmp_path: Path) -> None:
    """A lease and a group of a stream that hold their publishers, each with its name."""
    with broker_process(tmp_path) as busy, connect(busy.url) as connection:
        assert said(busy, "readers").out == "no readers that keep their place with the broker\n"
        asker, channel = connection.channel(), connection.channel()
        full: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
        channel.declare_queue("leased", durable=True, arguments=full)
        channel.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
        group: Table = {"queue": "events", "group": "etl", "offset": 0, "max_lag_messages": 4}
        asker.request("stream.group.register", group)
        lease: Table = {"queue": "leased", "group": "g", "start": 0, "max_messages": 3}
        asker.request("lease.acquire", {**lease, "query": "spark query minutes (orders)"})
        for number in range(8):
            channel.publish("", "leased", b"%d" % number)
            channel.publish("", "events", b"%d" % number)

        def rows() -> dict[object, dict[str, object]]:
            done = said(busy, "readers", "--format", "json")
            return {row["kind"]: row for row in msgspec.json.decode(done.out)["readers"]}

        until(lambda: all(row["is_holding"] for row in rows().values()), "both hold")
        time.sleep(1.5)
        found = rows()
        assert set(found) == {"lease", "stream"}
        assert found["lease"]["query"] == "spark query minutes (orders)"
        assert found["lease"]["lag_messages"] == 5 and found["stream"]["group"] == "etl"
        for row in found.values():
            assert float(str(row["held_seconds"])) > 1 and not row["lag_is_longer"]
            assert 1 < float(str(row["lag_seconds"])) < PATIENCE_S
            assert int(str(row["lag_bytes"])) > 0
        text = said(busy, "readers").out
        assert "spark query minutes (orders)" in text and "holds publishers" in text
        asker.request("stream.group.advance", {"queue": "events", "group": "etl", "offset": 4})
        assert rows()["stream"]["position"] == 4
