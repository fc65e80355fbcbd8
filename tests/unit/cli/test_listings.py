"""Listings: people see the first rows, JSON and CSV have all of them, page by page."""

import csv
import json
from io import StringIO

import pytest

from penstock.broker.admin.answers import QueueRow
from penstock.cli.asking import SHOWN, Listed, RunningBroker
from penstock.cli.connections import connections
from penstock.cli.permissions import permissions
from penstock.cli.queues import ORDERS, queues
from penstock.cli.status import status
from penstock.cli.users import users
from tests.unit.cli.broker_process import BrokerProcess

COUNT = 123
NAMES = [f"/q{number:03}" for number in range(COUNT)]


@pytest.fixture(scope="module", autouse=True)
def filled(broker: BrokerProcess) -> None:
    connection = broker.connect()
    channel = connection.channel()
    for number in range(COUNT):
        channel.queue_declare(f"q{number:03}", durable=True)
    channel.confirm_delivery()
    for number in (7, 99):
        channel.basic_publish("", f"q{number:03}", b"x")
    connection.close()


def test_people_see_the_first_rows_and_how_many_there_are(broker: BrokerProcess) -> None:
    lines = broker.said(queues, options=("--sort", "name")).out.splitlines()
    assert lines[-1] == f"… {COUNT - SHOWN} more of {COUNT} queues; " \
        "--limit shows more, --format json all"  # fmt: skip
    assert sum("/q" in line for line in lines) == SHOWN
    assert "more of" not in broker.said(queues, options=("--limit", "1000")).out


@pytest.mark.parametrize("page_rows", [1, 50, COUNT, COUNT - 1, 1000])
def test_every_page_is_asked_for(broker: BrokerProcess, page_rows: int) -> None:
    asking = RunningBroker(broker.control, "json", page_rows)
    question: dict[str, object] = {"op": "queues", "do": "list", "vhost": "", "sort": "ready"}
    listed = Listed({"queues": QueueRow}, ORDERS["ready"])
    found = asking.pages(question, listed, None)
    rows = found["queues"]
    assert isinstance(rows, list) and found["next"] == "" and found["total"] == COUNT
    assert [row["name"] for row in rows[:3]] == ["/q007", "/q099", "/q000"]
    assert sorted(row["name"] for row in rows) == NAMES
    few = asking.pages(question, listed, 60)["queues"]
    assert isinstance(few, list) and [one["name"] for one in few] == [
        one["name"] for one in rows[:60]
    ]


def test_json_and_csv_have_all_rows(broker: BrokerProcess) -> None:
    said = broker.said(queues, options=("--format", "json", "--sort", "name"))
    assert [row["name"] for row in json.loads(said.out)["queues"]] == NAMES
    said = broker.said(queues, options=("--format", "csv", "--sort", "name"))
    rows = list(csv.DictReader(StringIO(said.out)))
    assert [row["name"] for row in rows] == NAMES
    assert list(rows[0]) == list(QueueRow.__struct_fields__)
    assert rows[7]["messages_ready"] == "1" and rows[0]["durable"] == "true"
    assert json.loads(rows[0]["rules"]) == {}
    assert len(json.loads(broker.said(queues, options=("--format", "json", "--limit", "7")).out)
               ["queues"]) == 7  # fmt: skip


def test_a_listing_with_two_kinds_of_rows_has_the_columns_of_both(broker: BrokerProcess) -> None:
    said = broker.said(permissions, options=("--format", "csv"))
    (row,) = csv.DictReader(StringIO(said.out))
    assert row["user"] == "guest" and row["configure"] == ".*" and row["exchange"] == ""


def test_connections_are_listed_and_counted_by_status(broker: BrokerProcess) -> None:
    mine = broker.connect()
    said = broker.said(connections)
    assert said.out.splitlines()[0].split() == [
        "CONNECTION", "CALLED", "USER", "VHOST", "STATE", "CHANNELS", "IN", "HELD", "TLS"
    ]  # fmt: skip
    (row,) = json.loads(broker.said(connections, options=("--format", "json")).out)["connections"]
    assert (row["user"], row["vhost"], row["state"], row["channels"]) == (
        "guest",
        "/",
        "running",
        0,
    )
    lines = broker.said(status).out.splitlines()
    assert "connections  1: 1 running" in lines
    assert f"queues       {COUNT}, 2 messages ready, 0 unacknowledged" in lines
    mine.close()
    assert broker.said(users, options=("--format", "csv")).out.startswith("name,tags,limits")
