"""What requests over HTTP are answered where something is missing, wrong, or has just changed."""

import base64
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest

from penstock.base.limits import MANAGEMENT_BODY_BYTES
from penstock.routing.factory import EXCHANGE_KINDS
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.conformance.live import free_port, penstock_process
from tests.conformance.person import Person
from tests.patience import PATIENCE_S, until

GUEST: Final = "guest:guest"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("answers")) as found:
        yield found


@pytest.fixture
def channel(managed: Managed) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(managed.broker.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def ask(managed: Managed, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, found, _ = call(managed.base, method, path, body, GUEST)
    return status, found


# -- what has just changed -----------------------------------------------------------------------


# -- what is not there ---------------------------------------------------------------------------


# -- what is wrong -------------------------------------------------------------------------------


# -- what is shown -------------------------------------------------------------------------------


def test_the_overview_has_the_columns_that_are_wanted(managed: Managed) -> None:
    found = ask(managed, "GET", "/overview?columns=cluster_name,object_totals.queues")[1]
    assert found.keys() == {"cluster_name", "object_totals"}
    assert found["object_totals"].keys() == {"queues"}
    # Of a list of objects, the field of each.
    found = ask(managed, "GET", "/overview?columns=listeners.port,listeners.protocol")[1]
    assert found == {"listeners": [{"protocol": "amqp", "port": managed.broker.port}]}


def test_every_type_of_exchange_is_offered(managed: Managed) -> None:
    found = ask(managed, "GET", "/overview")[1]["exchange_types"]
    assert {one["name"] for one in found} == set(EXCHANGE_KINDS)
    guest = Person(managed.base)
    guest.log_in()
    page = guest.get("/exchanges").text
    assert [kind for kind in EXCHANGE_KINDS if f'<option value="{kind}"' not in page] == []


def is_answering(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


