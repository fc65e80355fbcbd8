"""A consumer that is too slow for what it was given hears nothing meanwhile, and goes on."""

from click.testing import CliRunner

from penstock.client.io_blocking import connect
from penstock.perf.main import command
from penstock.testing import Broker


def test_a_consumer_that_does_not_read_has_not_lost_its_broker() -> None:
    """It was said that the broker was silent, whose heartbeats nobody had read."""
    with Broker() as broker:
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.declare_queue("slow")
            channel.confirm_select()
            for _ in range(2000):
                channel.publish("", "slow", b"x" * 500)
            channel.wait_for_confirms()
        words = ["-h", f"{broker.url}?heartbeat=1", "-x", "0", "-a", "-R", "0.1", "-z", "4"]
        found = CliRunner().invoke(command, [*words, "-u", "slow", "-p"])
    assert found.exit_code == 0, found.output
    assert "failed" not in found.output
