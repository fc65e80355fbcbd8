"""The load tool against a live broker: every message arrives, and a lost one is noticed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from penstock.client.io_blocking import connect
from penstock.perf.main import command
from tests.conformance.live import Broker, penstock_process
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def broker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Penstock of their own: the tool leaves a durable exchange `direct` behind, and a client's
    own suite declares one that is not durable."""
    if not broker.pid:
        yield broker
        return
    with penstock_process(tmp_path_factory.mktemp("perf")) as own:
        yield own


def run(broker: Broker, *options: str) -> Result:
    # What is on its way when the machine stands still is not lost.
    patience = ("--grace", str(PATIENCE_S))
    arguments = ["-h", broker.patient_url, "--format", "json", *patience, *options]
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def summary(result: Result) -> dict[str, object]:
    found: dict[str, object] = json.loads(result.output.splitlines()[-1])
    assert found["kind"] == "summary"
    return found


@pytest.mark.parametrize(
    "options",
    [
        ["-C", "500"],
        ["-C", "500", "-a", "-s", "12-200k", "-x", "2"],
        ["-C", "300", "-c", "20", "-q", "50", "-A", "10", "-f", "persistent"],
        ["-C", "300", "-x", "2", "-y", "3", "-t", "fanout", "-e", "perf-test-fanout", "-k", "any"],
        ["-C", "200", "-x", "2", "-y", "2", "-qp", "perf-test-%d", "-qpt", "2", "-f", "mandatory"],
        ["-C", "40", "-r", "400", "-R", "1000", "-q", "1"],
    ],
    ids=["plain", "sizes", "confirms", "fanout", "pattern", "paced"],
)
def test_every_message_arrives(broker: Broker, options: list[str]) -> None:
    result = run(broker, *options)
    found = summary(result)
    assert result.exit_code == 0, result.output
    assert found["lost"] == 0 and found["received"] == found["expected"] != 0


def test_messages_that_do_not_arrive_are_counted_as_lost(broker: Broker) -> None:
    with connect(broker.patient_url) as connection:
        connection.channel().declare_queue("perf-test-lonely", auto_delete=True)
        result = run(
            broker, "-C", "200", "-p", "-u", "perf-test-lonely", "-k", "perf-test-nowhere",
            "--grace", "0.2",
        )  # fmt: skip
    assert result.exit_code == 4
    assert summary(result)["lost"] == 200


def test_publishes_nobody_wants_come_back(broker: Broker) -> None:
    result = run(broker, "-C", "20", "-y", "0", "-p", "-k", "perf-test-nowhere", "-c", "5",
                 "-f", "mandatory")  # fmt: skip
    found = summary(result)
    assert result.exit_code == 0 and found["sent"] == 20
    figures = found["figures"]
    assert isinstance(figures, dict) and figures["returned_per_s"] > 0


def test_a_missing_queue_is_the_brokers_word(broker: Broker) -> None:
    result = run(broker, "-C", "20", "-p", "-u", "perf-test-missing")
    assert result.exit_code == 1 and "404 NOT_FOUND" in result.output


def test_ctrl_c_leaves_one_object_a_line(broker: Broker) -> None:
    """And a summary of what there was."""
    # Whoever runs the tests in the background of a shell ignores it, and so would the command.
    perf = ["env", "--default-signal=INT", sys.executable, "-m", "penstock.perf"]
    command = [*perf, "-h", broker.patient_url, "--format", "json", "-r", "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        lines += process.stdout.readlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[0] == "interval" and kinds[-2:] == ["interrupted", "summary"]
    assert process.returncode == 0
