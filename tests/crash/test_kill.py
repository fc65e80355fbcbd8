"""A real broker killed while it writes: what was confirmed comes back, in order, unaltered.

`kill -9` loses nothing that was written, so these runs find confirms that come before the write,
and files that a new start cannot read; tests of fdatasync are in test_crash_states and
test_power_cut. Rows F1, F4, F20, F23 and F24 of the failure catalogue.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from penstock.protocol import methods as m
from tests.crash.live import WINDOW, Lost, Publisher, Served, recovered, served
from tests.patience import PATIENCE_S

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no faults in system calls"
)
ROUNDS = 5
SERVE = (sys.executable, "-m", "penstock.cli.main", "serve")


def body(number: int) -> bytes:
    return b"%08d" % number + b"x" * (number * 37 % 3000)


def check_back(broker: Served, queue: str, published: range, confirmed: set[int]) -> set[int]:
    """Everything confirmed is in `queue`, in order and as it was published; what came."""
    bodies = recovered(broker, queue)
    numbers = [int(one[:8]) for one in bodies]
    assert numbers == sorted(set(numbers)), "out of order, or twice"
    assert all(one == body(number) for one, number in zip(bodies, numbers, strict=True))
    assert set(numbers) <= set(published), "something nobody published"
    missing = confirmed - set(numbers)
    assert not missing, f"{len(missing)} confirmed messages are lost: {sorted(missing)[:5]}"
    return set(numbers)


def test_f01_f06_kill_9_while_publishing(tmp_path: Path) -> None:
    """F1, F6: five lives on one directory; each is killed while publishes are under way, and what
    an earlier one confirmed is not lost by a later one."""
    data = tmp_path / "data"
    chance = Random(7)
    confirmed: set[int] = set()
    said = 0
    for life in range(ROUNDS):
        with served(data, tmp_path) as broker:
            publisher = Publisher(broker)
            publisher.declare("d1", "d2")
            first = said
            end = 50 + chance.randrange(400)
            for _ in range(end):
                publisher.publish("amq.fanout", "", body(said))
                said += 1
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait()
            with contextlib.suppress(Lost):
                publisher.finish()
            publisher.close()
        confirmed |= {first + number for number in publisher.confirmed}
        assert publisher.confirmed, f"life {life} confirmed nothing"
    with served(data, tmp_path) as broker:
        check_back(broker, "d1", range(said), confirmed)
        check_back(broker, "d2", range(said), confirmed)


def test_damage_after_a_kill_is_told_where_all_had_been_quiet(tmp_path: Path) -> None:
    """Issue 18, 3: what is spoilt while the broker is dead is not taken for a torn write."""
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1")
        for number in range(20):
            publisher.publish("amq.fanout", "", body(number))
        publisher.finish()
        publisher.close()
        acks = data.glob("vhosts/*/persistent/*.acks")
        end = time.monotonic() + PATIENCE_S
        while not any(acks) and time.monotonic() < end:
            time.sleep(0.05)
            acks = data.glob("vhosts/*/persistent/*.acks")
    (log,) = data.glob("vhosts/*/persistent/*.log")
    whole = log.read_bytes()
    spoilt = bytearray(whole)
    spoilt[whole.rindex(b"00000019") + 20] ^= 1
    log.write_bytes(spoilt)
    checked = subprocess.run(
        [*SERVE[:-1], "store", "check", "--data", str(data)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert checked.returncode == 1 and "were safe and are no record" in checked.stdout
    with served(data, tmp_path):
        said = (tmp_path / "stderr.txt").read_text()
    assert "queue:/d1: damaged, 1 of its messages cannot be read" in said, said


def test_f23_acknowledged_messages_stay_away_after_a_clean_stop(tmp_path: Path) -> None:
    """A stop in order keeps what rests and nothing else; only durable queues and persistent
    messages come back (F23)."""
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1", "d2")
        publisher.ask(m.QueueDeclare("gone"))
        for number in range(100):
            publisher.publish("amq.fanout", "", body(number))
        publisher.finish()
        assert len(recovered(broker, "d1")) == 100
        publisher.close()
        assert broker.stop() == 0
    with served(data, tmp_path) as broker:
        assert recovered(broker, "d1") == []
        check_back(broker, "d2", range(100), set(range(100)))
        publisher = Publisher(broker)
        # The broker closes the channel, and answers no more on it.
        assert isinstance(publisher.ask(m.QueueDeclare("d2", passive=True)), m.QueueDeclareOk)
        assert publisher.is_refused(m.QueueDeclare("gone", passive=True))
        publisher.close()


def test_f24_two_brokers_on_one_directory(tmp_path: Path) -> None:
    """F24: the second ends with an error that names the first, and touches nothing."""
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
        second = subprocess.run(
            [*SERVE, "--data", str(data), "--port", "0"],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert second.returncode != 0
        assert f"pid {broker.process.pid}" in second.stderr.decode()
        assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


@needs_strace
def test_f04_a_failed_sync_is_the_end(tmp_path: Path) -> None:
    """F4: after the first EIO from fdatasync nothing is confirmed and nothing synced again; the
    broker says why and exits with an error. What it had confirmed comes back."""
    data = tmp_path / "data"
    trace = tmp_path / "trace.txt"
    prefix = (
        "strace", "-ff", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync",
        "-e", "inject=fdatasync:error=EIO:when=8+",
    )  # fmt: skip
    with served(data, tmp_path, prefix) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1")
        confirmed_at_failure = 0
        with pytest.raises(Lost):
            for number in range(10_000):
                publisher.publish("", "d1", body(number))
                confirmed_at_failure = len(publisher.confirmed)
            publisher.finish()
        code = broker.process.wait(PATIENCE_S)
        publisher.close()
        assert code != 0
        assert "cannot write any more" in broker.errors.read_text()
    texts = [path.read_text() for path in tmp_path.glob("trace.txt.*")]
    lines = [line for text in texts for line in text.splitlines() if "INJECTED" in line]
    files = [line.split("fdatasync(")[1].split(")")[0] for line in lines]
    # The database of the catalogue has a file of its own, which it syncs as it is closed.
    assert len(files) == len(set(files)), "a file whose sync had failed was synced again"
    assert confirmed_at_failure <= publisher.said
    with served(data, tmp_path) as broker:
        check_back(broker, "d1", range(publisher.said), publisher.confirmed)


@needs_strace
def test_f20_slow_syncs_make_larger_batches(tmp_path: Path) -> None:
    """F20: 200 ms for each fdatasync; confirms still come, a window at a time, so there are few
    syncs instead of one for each message."""
    data = tmp_path / "data"
    trace = tmp_path / "trace.txt"
    prefix = (
        "strace", "-ff", "-o", str(trace), "-e", "trace=fdatasync",
        "-e", "inject=fdatasync:delay_enter=200ms",
    )  # fmt: skip
    with served(data, tmp_path, prefix) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1")
        began_s = time.monotonic()
        # Whole windows: how fast this process is must not decide what goes into a batch.
        for first in range(0, 500, WINDOW):
            numbers = range(first, min(first + WINDOW, 500))
            publisher.publish_at_once("", "d1", [body(number) for number in numbers])
            publisher.finish()
        seconds = time.monotonic() - began_s
        assert len(publisher.confirmed) == 500
        publisher.close()
    lines = [path.read_text().count("DELAYED") for path in tmp_path.glob("trace.txt.*")]
    assert seconds > 500 / WINDOW * 0.2 * 0.8, "no sync was slow"
    assert sum(lines) < 60, f"{sum(lines)} syncs for 500 messages"
