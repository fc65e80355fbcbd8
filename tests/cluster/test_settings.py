"""What `flow set` has changed is in force at the next leader, unless it was for a time."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import await_true, command

pytestmark = pytest.mark.slow


def settings_of(rig: ClusterRig, name: str) -> dict[str, str]:
    """As the broker that leads has them, asked at any node."""
    rows = rig.ask_broker(name, {"op": "flow", "do": "settings"})["settings"]
    assert isinstance(rows, list)
    return {str(row["key"]): str(row["value"]) for row in rows}


def has(rig: ClusterRig, name: str, key: str, value: str) -> Callable[[], bool]:
    return lambda: settings_of(rig, name).get(key) == value


def next_leader(rig: ClusterRig, before: str) -> str:
    """Another node leads when it returns; the one that did is killed, and started again."""
    rig.kill(before)
    after = rig.await_serving(before)
    rig.start(before)
    return after


def test_a_setting_survives_the_leader_that_was_told_of_it(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    follower = next(name for name in rig.nodes if name != leader)
    command(rig, follower, "flow", "set", "credit.watchdog=7s", "rate.user.messages:app=900/s")
    command(rig, follower, "flow", "set", "consumer.timeout=40s", "--for", "10m")
    command(rig, leader, "flow", "set", "credit.watchdog=8s", "--for", "10m")
    command(rig, leader, "flow", "set", "rate.user.messages:app=800/s")
    # At once: when the command has ended etcd has it.
    second = next_leader(rig, leader)
    found = settings_of(rig, second)
    assert found["credit.watchdog"] == "7s", "the one for a time is gone, what it was before is not"
    assert found["rate.user.messages:app"] == "800/s"
    assert found["consumer.timeout"] != "40s"
    rig.await_whole()
    command(rig, second, "flow", "set", "rate.user.messages:app=off")
    third = next_leader(rig, second)
    found = settings_of(rig, third)
    assert found["credit.watchdog"] == "7s"
    assert "rate.user.messages:app" not in found
    rig.await_whole()


def test_a_setting_that_no_broker_can_have_any_more_is_named_once(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    command(rig, leader, "vhosts", "add", "gone")
    command(rig, leader, "flow", "set", "account.vhost.high:gone=1MiB")
    command(rig, leader, "flow", "set", "credit.watchdog=9s")
    command(rig, leader, "vhosts", "delete", "gone", "--yes")
    second = next_leader(rig, leader)
    assert settings_of(rig, second)["credit.watchdog"] == "9s"
    said = rig.nodes[second].log.read_text()
    assert said.count("account.vhost.high:gone=1MiB: there is no virtual host 'gone'") == 1
    rig.await_whole()


def test_while_etcd_is_away_a_setting_is_in_force_and_kept_later(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    rig.stop_etcd()
    said = json.loads(command(rig, leader, "flow", "set", "credit.watchdog=5s", "--format", "json"))
    assert said["words"].startswith("it is in force, but not kept for brokers of other nodes yet")
    assert settings_of(rig, leader)["credit.watchdog"] == "5s"
    assert "in force, but not kept" in command(rig, leader, "flow", "set", "credit.watchdog=6s")
    rig.start_etcd()
    log = rig.nodes[leader].log
    await_true(lambda: "are kept for other nodes now" in log.read_text(), "they are kept")
    second = next_leader(rig, leader)
    assert settings_of(rig, second)["credit.watchdog"] == "6s"
    rig.await_whole()


def test_sighup_has_the_last_word(rig: ClusterRig, tmp_path: Path) -> None:
    """The file of every node says otherwise since, and nobody has to know what was typed once."""
    leader = rig.await_serving()
    files = {name: tmp_path / f"{name}.toml" for name in rig.nodes}
    for name, file in files.items():
        file.write_text("watchdog_ms = 20000\n")
        rig.nodes[name].options = ("--config", str(file))
        rig.stop(name)
        rig.start(name)
        rig.await_serving()
        rig.await_whole()
    leader = rig.await_serving()
    command(rig, leader, "flow", "set", "credit.watchdog=4s")
    for name, file in files.items():
        file.write_text("watchdog_ms = 30000\n")
        process = rig.nodes[name].process
        assert process is not None
        process.send_signal(signal.SIGHUP)
    await_true(has(rig, leader, "credit.watchdog", "30s"), "it has the file's")
    time.sleep(1.0)
    second = next_leader(rig, leader)
    assert settings_of(rig, second)["credit.watchdog"] == "30s"
    rig.await_whole()


def test_a_cluster_that_was_stopped_begins_with_its_configuration(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    command(rig, leader, "flow", "set", "credit.watchdog=3s")
    for name in rig.nodes:
        rig.stop(name)
    for name in rig.nodes:
        rig.start(name)
    found = settings_of(rig, rig.await_serving())
    assert found["credit.watchdog"] != "3s"
    rig.await_whole()
