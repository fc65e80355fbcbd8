"""The plugin for pytest as other projects use it: runs of pytest in folders of their own."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.patience import PATIENCE_S

PUT = """
import pika

def put(url, queue, count=1):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(queue)
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)
    connection.close()
"""


FAST = ("-p", "penstock.pytest_plugin", "-p", "xdist")
"""Instead of every plugin that is installed: some take as long to load as all that is done here."""


def run_pytest(folder: Path, *words: str, **files: str) -> str:
    """What `pytest WORDS` prints in `folder` with these modules in it. FAST or nothing comes first:
    how plugins are found."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *words],
        cwd=folder,
        env={**os.environ, **({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if words else {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout + done.stderr


def test_it_costs_nothing_where_no_test_uses_it(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        test_stranger="""
        import sys

        def test_what_is_imported():
            assert "penstock.pytest_plugin" in sys.modules
            own = {one for one in sys.modules if one.partition(".")[0] == "penstock"}
            assert own == {"penstock", "penstock.pytest_plugin"}
            assert "msgspec" not in sys.modules
        """,
    )
    assert "1 passed" in said, said


def test_each_test_has_a_virtual_host_of_one_broker(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        *FAST,
        put=PUT,
        conftest="""
        import pytest

        @pytest.fixture(scope="session")
        def penstock_settings():
            return {"product": "RabbitMQ"}
        """,
        test_two="""
        import pytest
        from put import put

        pids = set()

        @pytest.mark.parametrize("number", [1, 2])
        def test_the_same_queue(penstock_vhost, penstock_broker, number):
            pids.add(penstock_broker.pid)
            assert len(pids) == 1
            assert penstock_vhost.name == f"test_the_same_queue-{number}"
            put(penstock_vhost.url, "orders")
            assert penstock_vhost.queues()["orders"].messages == 1
            assert penstock_broker.settings == {"product": "RabbitMQ"}

        def test_virtual_hosts_are_gone(penstock_broker):
            rows = penstock_broker.ask("vhosts", do="list")["vhosts"]
            assert [row["name"] for row in rows] == ["/"]
        """,
    )
    assert "3 passed" in said, said


def test_a_failed_test_shows_what_is_left(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        *FAST,
        put=PUT,
        test_failing="""
        import pytest
        from put import put

        def test_left(penstock_vhost, penstock_broker):
            put(penstock_broker.url, "other")
            put(penstock_vhost.url, "orders", 3)
            put(penstock_vhost.url, "done", 0)
            penstock_vhost.pause("orders")
            penstock_broker.raise_alarm()
            penstock_vhost.wait_for_empty("orders", timeout_s=0.01)

        def test_alarms_end_with_the_test(penstock_broker):
            rows = penstock_broker.ask("flow", do="alarms")["alarms"]
            assert not any(row["is_set"] for row in rows)

        def test_of_all(penstock_broker):
            assert penstock_broker.queues()["other"].messages == 0

        @pytest.fixture
        def broken(penstock_vhost):
            put(penstock_vhost.url, "set up")
            raise OSError("no")

        def test_set_up(broken):
            pass

        def test_without_broker():
            assert False
        """,
    )
    assert "3 failed, 1 passed, 1 error" in said, said
    # Errors of fixtures come first, then failed tests in their order.
    parts = said.split("penstock: what is left in the broker")
    assert len(parts) == 4, said
    assert "of 1 queues of virtual host 'test_set_up' 1 hold messages" in parts[1]
    assert "NotEmptyError: not empty after 0.01 s:" in parts[1]
    assert "of 2 queues of virtual host 'test_left' 1 hold messages or are stopped:" in parts[2]
    assert "  queue orders: 3 ready, 0 unacknowledged, 0 consumers, paused" in parts[2]
    assert "memory alarm, for " in parts[2]
    assert "the mark is 0, which stops all publishing" in parts[2]
    shown = parts[3].partition("test_without_broker")[0]
    assert "of 1 queues of all virtual hosts 1 hold messages" in shown
    # The log is that of the test, and not of the one before it.
    assert "queue /other: 1 ready" in shown and "log of the broker" not in shown


def test_workers_of_xdist_have_a_broker_each(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        *FAST,
        "-n2",
        "--dist=each",
        put=PUT,
        test_many="""
        import time
        from pathlib import Path
        from put import put

        def test_alone(penstock_vhost, penstock_broker, worker_id):
            put(penstock_vhost.url, "orders")
            assert penstock_vhost.queues()["orders"].messages == 1
            Path(worker_id).write_text(str(penstock_broker.pid))
            end = time.monotonic() + 60
            while len(list(Path().glob("gw*"))) < 2:
                assert time.monotonic() < end
                time.sleep(0.01)
        """,
    )
    assert "2 passed" in said, said
    pids = {one.read_text() for one in tmp_path.glob("gw*")}
    assert len(pids) == 2


def test_what_a_test_has_raised_ends_however_the_test_does(tmp_path: Path) -> None:
    """A fixture that fails at its end kept the alarm for every test behind it."""
    said = run_pytest(
        tmp_path,
        *FAST,
        test_ends="""
        import pytest

        @pytest.fixture
        def failing(penstock_broker):
            yield
            raise OSError("the fixture's own")

        def test_alarm(penstock_broker, failing):
            penstock_broker.raise_alarm()

        def test_no_alarm(penstock_broker):
            rows = penstock_broker.ask("flow", do="alarms")["alarms"]
            assert not any(row["is_set"] for row in rows)
        """,
    )
    assert "2 passed, 1 error" in said, said


def test_a_broker_that_has_died_fails_those_that_use_it(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        *FAST,
        test_dead="""
        import os
        import signal

        def test_killer(penstock_broker):
            os.kill(penstock_broker.pid, signal.SIGKILL)
            penstock_broker._process.wait()

        def test_without_broker():
            pass

        def test_with_broker(penstock_vhost):
            pass
        """,
    )
    assert "2 passed, 1 error" in said, said
    assert "has ended with status -9" in said


def test_a_virtual_host_is_there_again_after_a_restart(tmp_path: Path) -> None:
    """And one that the test itself has removed is no fault at its end."""
    said = run_pytest(
        tmp_path,
        *FAST,
        put=PUT,
        test_restart="""
        from put import put

        def test_again(penstock_broker, penstock_vhost):
            put(penstock_vhost.url, "orders")
            penstock_broker.restart(is_killed=True)
            assert penstock_vhost.queues() == {}
            put(penstock_vhost.url, "orders")
            assert penstock_vhost.queues()["orders"].messages == 1

        def test_removed(penstock_broker, penstock_vhost):
            penstock_vhost.delete()
            penstock_broker.restart()
            rows = penstock_broker.ask("vhosts", do="list")["vhosts"]
            assert [row["name"] for row in rows] == ["/"]

        def test_removed_by_others(penstock_broker, penstock_vhost):
            penstock_broker.ask("vhosts", do="delete", name=penstock_vhost.name)
        """,
    )
    assert "3 passed" in said and "error" not in said, said


def test_a_hook_that_fails_before_ours_is_an_error_of_its_test(tmp_path: Path) -> None:
    """It was the end of the whole run: INTERNALERROR."""
    said = run_pytest(
        tmp_path,
        *FAST,
        conftest="""
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_setup(item):
            if item.name == "test_second":
                raise OSError("a hook's own")
        """,
        test_hook="""
        def test_first(penstock_broker):
            pass

        def test_second(penstock_broker):
            pass

        def test_third(penstock_broker):
            pass
        """,
    )
    assert "2 passed, 1 error" in said and "INTERNALERROR" not in said, said
