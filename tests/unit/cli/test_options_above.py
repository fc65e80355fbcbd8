"""What stands before the verb counts for the verb: `penstock queues --vhost a purge orders`."""

import json

import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from tests.unit.cli.broker_process import BrokerProcess


def call(*words: str, **environment: str) -> Result:
    done = CliRunner().invoke(cli, list(words), env=environment)
    if done.exception is not None and not isinstance(done.exception, (OperatorError, SystemExit)):
        raise done.exception
    return done


def out(*words: str) -> str:
    done = call(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def where(broker: BrokerProcess) -> tuple[str, str]:
    """One queue of the same name in two virtual hosts, a message in each."""
    where = ("--control", broker.control)
    out("vhosts", "add", "tenant", *where)
    for vhost in ("/", "tenant"):
        out("queues", "declare", "orders", "--vhost", vhost, *where)
        out("queues", "publish", "orders", "one", "--vhost", vhost, *where)
    return where


def test_a_virtual_host_is_that_of_the_verb(where: tuple[str, str]) -> None:
    rows = json.loads(out("queues", "--vhost", "tenant", "list", "--format", "json", *where))
    assert [row["name"] for row in rows["queues"]] == ["tenant/orders"]
    said = out("queues", "--vhost", "tenant", "purge", "orders", "--yes", *where)
    assert said == "queue 'orders' in vhost 'tenant': 1 message thrown away\n"
    assert "1 message thrown away" in out("queues", "purge", "/orders", "--yes", *where)
    # The verb's own counts more.
    said = out("queues", "--vhost", "nowhere", "purge", "orders", "--yes", "--vhost", "/", *where)
    assert "in vhost '/'" in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("queues", "--vhost", "tenant", "pause", "orders"), "--vhost stands before 'pause'"),
        (("users", "--limit", "5", "add", "anna", "secret"), "--limit stands before 'add'"),
        (("bindings", "--source", "x", "bind", "amq.direct", "orders"), "--source stands before"),
    ],
)
def test_one_that_the_verb_does_not_have_is_refused(
    where: tuple[str, str], words: tuple[str, ...], text: str
) -> None:
    done = call(*words, *where)
    assert done.exit_code == 2 and text in done.output
    assert "anna" not in out("users", *where)


def test_the_format_before_the_verb_is_not_lost_to_a_place_behind_it(
    where: tuple[str, str],
) -> None:
    assert json.loads(out("queues", "--format", "json", "list", *where))["total"] == 2
    shown = out("queues", "--format", "json", "list", "--format", "csv", *where)
    assert shown.startswith("name,")


def test_a_port_before_the_verb_counts_more_than_the_environment(
    where: tuple[str, str], broker: BrokerProcess
) -> None:
    def asked(*words: str) -> str:
        return str(call(*words, PENSTOCK_URL="http://127.0.0.1:1").exception)

    assert "no broker answers at http://127.0.0.1:1" not in asked(
        "queues", "--port", "5672", "list"
    )
    assert "users" not in asked("users", *where, "list")


def test_a_queue_is_not_made_in_another_virtual_host_than_its_name_says(
    where: tuple[str, str],
) -> None:
    """`tenant/orders` is what listings call a queue of tenant; in / a queue of that name was made,
    which `penstock queues delete tenant/orders` did not mean."""
    said = str(call("queues", "declare", "tenant/bills", *where).exception)
    assert "queue 'bills' of vhost 'tenant': give it with --vhost tenant, or write /tenant" in said
    assert "bills" not in out("queues", *where)
    for name in ("/tenant/bills", "other/bills"):
        assert "in vhost '/' is there" in out("queues", "declare", name, *where)
