"""Who a query is, as its broker shows it."""

import socket

import pytest

from penstock.spark.connector.common.labels import Labels, name_in
from penstock.spark.connector.common.options import parse_sink, parse_source

ID = "64a90328-7201-4394-aeb2-9f7b8cf48250"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (Labels("orders-app", "minutes", ID), "minutes (orders-app)"),
        (Labels("orders-app", "", ID), "64a90328 (orders-app)"),
        (Labels("orders-app"), "of orders-app"),
        (Labels("", "minutes"), "minutes"),
        (Labels(), "of Spark"),
    ],
)
def test_people_see_what_they_have_called_it(labels: Labels, name: str) -> None:
    assert labels.name() == name
    assert labels.connection_name("source") == f"{name}: source"


def test_a_group_is_called_by_its_query() -> None:
    assert Labels("app", "minutes", ID).of_group("g") == "spark query minutes (app)"
    assert Labels("app", "", ID).of_group("g") == "spark query g (app)"
    assert Labels("app", "", ID).of_group("") == "spark query 64a90328 (app)"
    assert Labels("app").of_group("") == "spark query of app"


def test_what_is_not_known_is_not_said() -> None:
    host = socket.gethostname()
    said = Labels("app", "minutes").properties()
    assert said == {"query": "minutes", "application": "app", "host": host}


def test_a_name_is_found_in_what_spark_says_of_a_job() -> None:
    rest = f"id = {ID}\nrunId = {ID}\nbatch = 7"
    assert name_in(f"minutes\n{rest}") == "minutes"
    assert name_in(f"every\nid = 5\n{rest}") == "every\nid = 5"
    assert name_in(f"\n{rest}") == ""
    assert name_in(f"minutes<br/>id = {ID}<br/>runId = {ID}<br/>batch = init") == "minutes"
    assert name_in("a job of the user's own") == ""


def test_the_name_may_be_given_for_the_time_before_a_task_has_said_it() -> None:
    for parsed in (parse_source({"queue": "q", "queryName": "n"}), parse_sink({"queryName": "n"})):
        assert parsed.endpoint.labels == Labels(query="n")
