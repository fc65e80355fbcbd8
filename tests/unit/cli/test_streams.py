"""`penstock streams` against a running broker, with a publisher beside it and a restart."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click import Command
from click.testing import CliRunner
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from penstock.base.errors import OperatorError
from penstock.cli.streams import streams
from penstock.client.io_blocking import connect
from tests.patience import until
from tests.unit.cli.broker_process import BrokerProcess, broker_process

CONFIG = """
vhosts = ["/", "narrow"]
[[vhost_limits]]
vhost = "narrow"
max-queues = 2
"""
HASHED = {"hello1": 1, "hello2": 0, "hello4": 2, "hello88": 1}
"""Keys and their partitions, of three, as RabbitMQ's stream clients have them."""
Says = Callable[..., str]


def say(broker: BrokerProcess, *words: str, command: Command = streams) -> str:
    """A command's output; what an operator does wrong is raised."""
    done = CliRunner().invoke(command, (*words[:1], "--control", broker.control, *words[1:]))
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.fixture
def says(broker: BrokerProcess) -> Says:
    return lambda *words: say(broker, *words)


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = broker.connect()
    yield connection.channel()
    connection.close()


def counts(channel: BlockingChannel, *queues: str) -> list[int]:
    return [channel.queue_declare(name, passive=True).method.message_count for name in queues]


def listed(says: Says, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = msgspec.json.decode(says("list", "--format", "json"))[
        "partitions"
    ]
    return [row for row in rows if row["super_stream"] == name]


def test_a_super_stream_of_hashed_keys(says: Says, channel: BlockingChannel) -> None:
    said = says("add-super", "invoices", "--partitions", "3", "--max-age", "7D")
    assert "'invoices' has 3 partitions, invoices-0, invoices-1, invoices-2" in said
    channel.confirm_delivery()
    for key in HASHED:
        channel.basic_publish("invoices", key, b"body", mandatory=True)
    names = ("invoices-0", "invoices-1", "invoices-2")
    assert counts(channel, *names) == [1, 2, 1]
    rows = listed(says, "invoices")
    assert [(row["partition"], row["routing_key"], row["messages"]) for row in rows] == [
        ("invoices-0", "0", 1), ("invoices-1", "1", 2), ("invoices-2", "2", 1),
    ]  # fmt: skip
    assert all(row["kind"] == "x-super-stream" for row in rows)
    assert isinstance(rows[0]["bytes"], int) and rows[0]["bytes"] > 4
    # What the streams were declared with: the same is no fault, anything else is.
    arguments = {"x-queue-type": "stream", "x-max-age": "7D"}
    channel.queue_declare("invoices-0", durable=True, arguments=arguments)
    channel.exchange_declare("invoices", passive=True)
    table = list(csv.DictReader(io.StringIO(says("list", "--format", "csv"))))
    assert [row["partition"] for row in table if row["super_stream"] == "invoices"] == [*names]
    assert "deleted with 3 partitions" in says("delete-super", "invoices", "--yes")
    assert listed(says, "invoices") == []
    with pytest.raises(ChannelClosedByBroker, match="no queue 'invoices-0'"):
        counts(channel, "invoices-0")


def test_a_super_stream_by_key_and_one_key_more(says: Says, channel: BlockingChannel) -> None:
    says("add-super", "regions", "--routing-keys", "eu,us")
    said = says("add-partitions", "regions", "--routing-keys", "asia")
    assert "'regions' has 3 partitions, with regions-asia" in said
    channel.confirm_delivery()
    for key in ("eu", "asia", "asia"):
        channel.basic_publish("regions", key, b"body", mandatory=True)
    assert counts(channel, "regions-eu", "regions-us", "regions-asia") == [1, 0, 2]
    assert [row["partition"] for row in listed(says, "regions")] == [
        "regions-eu", "regions-us", "regions-asia",
    ]  # fmt: skip
    with pytest.raises(OperatorError, match=r"of type direct.* --routing-keys"):
        says("add-partitions", "regions", "--partitions", "1")
    says("delete-super", "regions", "--yes")


def test_one_made_by_a_client_is_listed_in_the_order_of_its_bindings(
    broker: BrokerProcess, says: Says, channel: BlockingChannel
) -> None:
    """As stream clients and `rabbitmq-streams` make them; an ordinary queue is no partition."""
    channel.exchange_declare("made", "direct", durable=True, arguments={"x-super-stream": True})
    for order, name in enumerate(("zeta", "alpha", "mid")):
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        arguments = {"x-stream-partition-order": order}
        channel.queue_bind(name, "made", str(order), arguments=arguments)
    channel.queue_declare("plain")
    channel.queue_bind("plain", "made", "0")
    assert [row["partition"] for row in listed(says, "made")] == ["zeta", "alpha", "mid"]
    with connect(f"amqp://127.0.0.1:{broker.port}") as connection:
        answer = connection.channel().request("stream.partitions", {"super_stream": "made"})
        assert answer == {"names": ["zeta", "alpha", "mid"], "is_last": True}
        answer = connection.channel().request(
            "stream.partitions", {"super_stream": "made", "from": 2}
        )
        assert answer["names"] == ["mid"]
    says("delete-super", "made", "--yes")
    assert counts(channel, "plain") == [0], "it was not its own"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add-super", "x"), "either --partitions N or --routing-keys"),
        (("add-super", "x", "--partitions", "3", "--routing-keys", "a"), "either --partitions"),
        (("add-super", "x", "--partitions", "257"), "has 1..256 partitions, and 'x' would have"),
        (("add-super", "x", "--routing-keys", "a,,b"), "none of them empty"),
        (("add-super", "x", "--routing-keys", "a,a"), "given twice"),
        (("add-super", "", "--partitions", "2"), "cannot be called ''"),
        (("add-super", "amq.x", "--partitions", "2"), "cannot be called 'amq.x'"),
        (("add-super", "x" * 254, "--partitions", "2"), "more than 255 bytes"),
        (("add-super", "x", "--partitions", "2", "--max-age", "7x"), "invalid_max_age; nothing"),
        (("add-super", "x", "--partitions", "2", "--vhost", "no"), "no vhost 'no'"),
        (("add-super", "x", "--partitions", "3", "--vhost", "narrow"), "queue limit.*nothing was"),
        (("add-partitions", "x", "--partitions", "1"), "no exchange has that name"),
        (("delete-super", "amq.direct", "--yes"), "is no super stream.*of type direct"),
        (("delete-super", "x", "--yes"), "no exchange has that name"),
    ],
)
def test_what_is_refused_changes_nothing(says: Says, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        says(*words)
    assert "no super streams" in says("list")


def test_what_is_there_already_is_not_touched(says: Says, channel: BlockingChannel) -> None:
    channel.queue_declare("taken-1", durable=True)
    with pytest.raises(OperatorError, match="a queue 'taken-1' is there already"):
        says("add-super", "taken", "--partitions", "2")
    channel.exchange_declare("there", "topic")
    with pytest.raises(OperatorError, match="exchange 'there' is there already"):
        says("add-super", "there", "--partitions", "2")
    assert "no super streams" in says("list")


def test_each_partition_is_consumed_by_one_of_its_own(says: Says, channel: BlockingChannel) -> None:
    """All of a key come to one consumer, in their order."""
    says("add-super", "jobs", "--partitions", "2")
    channel.confirm_delivery()
    for number in range(40):
        channel.basic_publish("jobs", f"key-{number % 7}", b"%d" % number, mandatory=True)
    channel.basic_qos(prefetch_count=40)
    got: dict[str, list[tuple[str, int]]] = {"jobs-0": [], "jobs-1": []}
    for name, rows in got.items():
        channel.basic_consume(
            name,
            lambda _, method, __, body, rows=rows: rows.append((method.routing_key, int(body))),
            arguments={"x-stream-offset": "first"},
        )
    until(
        lambda: channel.connection.process_data_events(0.05) or sum(map(len, got.values())) == 40,
        "all have come",
    )
    keys = [{key for key, _ in rows} for rows in got.values()]
    assert keys[0] and keys[1] and not keys[0] & keys[1]
    for rows in got.values():
        assert [number for _, number in rows] == sorted(number for _, number in rows)
    says("delete-super", "jobs", "--yes")


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    durable = BasicProperties(delivery_mode=2)
    with broker_process(tmp_path, data=str(tmp_path / "data")) as broker:
        say(broker, "add-super", "kept", "--partitions", "3")
        connection = broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("kept", "hello4", b"one", durable, mandatory=True)
        connection.close()
    with broker_process(tmp_path, data=str(tmp_path / "data")) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("kept", "hello4", b"two", durable, mandatory=True)
        assert counts(channel, "kept-0", "kept-1", "kept-2") == [0, 0, 2]
        rows = listed(lambda *words: say(broker, *words), "kept")
        assert [row["partition"] for row in rows] == ["kept-0", "kept-1", "kept-2"]
        connection.close()
