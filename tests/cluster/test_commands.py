"""What a person types about a cluster, and what it does: from three nodes down to one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import await_true, load
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow


def penstock(rig: ClusterRig, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`penstock cluster …`, asked of node `name`."""
    return command(rig, name, "cluster", *words)


def command(rig: ClusterRig, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`penstock …`, asked of node `name`."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *words, "--port", str(rig.nodes[name].port)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(rig.sockets)},
    )


def good(rig: ClusterRig, name: str, *words: str) -> str:
    done = penstock(rig, name, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_status_is_for_people_and_for_programs(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    follower = next(name for name in rig.nodes if name != leader)
    said = good(rig, leader, "status")
    assert f"node {leader} leads" in said and "etcd    answers" in said
    rows = [line.split() for line in said.splitlines() if line.partition(" ")[0] in rig.nodes]
    assert sorted(row[0] for row in rows) == sorted(rig.nodes)
    assert all(row[1] == "yes" for row in rows)
    # Any of them is asked for how far all are, as before the next step of a rolling upgrade.
    asked = good(rig, follower, "status")
    assert f"node {leader} leads" in asked
    rows = [line.split() for line in asked.splitlines() if line.partition(" ")[0] in rig.nodes]
    assert len(rows) == 3 and all("-" not in row and "yes" in row[2:] for row in rows), asked
    answer = json.loads(good(rig, leader, "status", "--format", "json"))
    assert answer["leader"] == leader and answer["majority"] == 2
    assert answer["quorum_critical"] == []
    assert all(one["is_whole"] and one["lag_bytes"] <= 0 for one in answer["nodes"])
    shown = good(rig, follower, "members")
    assert all(f"127.0.0.1:{node.link_port}" in shown for node in rig.nodes.values())
    assert f"node {leader} leads all queues" in good(rig, leader, "rebalance")


def test_leadership_moves_to_where_it_is_wanted_and_away_before_a_stop(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    other, third = (name for name in rig.nodes if name != leader)
    assert f"node {other} leads" in good(rig, leader, "move", other)
    # At once, as an operator does in a hurry: nobody has to be whole, or to serve, meanwhile.
    for word in ("move", "forget", "drain"):
        assert "there is no node 'x'" in penstock(rig, other, word, "x").stderr
    said = good(rig, third, "drain", other)
    assert f"node {other} may be stopped" in said and f"node {other} leads" not in said
    assert rig.await_serving() != other
    rig.await_whole()
    # Why somebody led no more is of no interest once all follow again.
    assert " ! node" not in good(rig, leader, "status")
    for name in rig.nodes:
        status = rig.status(name)
        assert status is not None and status.words == "", status


def test_leadership_is_not_given_to_a_node_that_is_away_or_stands_still(rig: ClusterRig) -> None:
    """Nobody has a pause for it: the leader goes on in its epoch."""
    leader = rig.await_serving()
    away, third = (name for name in rig.nodes if name != leader)
    rig.await_whole()
    before = rig.status(leader)
    assert before is not None
    rig.pause(away)
    time.sleep(4)
    # After five seconds its link is given up.
    words = f"nothing was heard of node '{away}' for|node '{away}' is not there"
    with pytest.raises(OperatorError, match=words):
        rig.ask(leader, {"op": "cluster_move", "name": away})
    rig.resume(away)
    rig.kill(away)
    await_true(lambda: is_away(rig, leader, away), f"node {away} is away")
    assert f"node '{away}' is not there" in penstock(rig, third, "move", away).stderr
    with pytest.raises(OperatorError, match=f"node '{away}' is not there"):
        rig.ask(leader, {"op": "cluster_move", "name": away})
    assert "voters are online, and a majority" in penstock(rig, leader, "drain", third).stderr
    after = rig.status(leader)
    assert after is not None and (after.leader, after.epoch) == (leader, before.epoch)
    rig.start(away)
    rig.await_whole()


def is_away(rig: ClusterRig, asked: str, name: str) -> bool:
    answer = rig.status(asked)
    return answer is not None and any(
        one.name == name and not one.is_online for one in answer.nodes
    )


def test_any_node_is_asked_and_the_leader_answers(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    follower = next(name for name in rig.nodes if name != leader)
    with load(rig, "asked"):
        said = [command(rig, name, "queues", "--format", "json") for name in (leader, follower)]
        assert [one.returncode for one in said] == [0, 0], said[1].stderr
        names = [[row["name"] for row in json.loads(one.stdout)["queues"]] for one in said]
        assert names[0] == names[1] == ["/asked"]

        def why() -> bool:
            # It looks at the last rounds, in which a new queue is not from its first moment on.
            return command(rig, follower, "why", "queue", "asked").returncode in (0, 3)

        until(why, f"an answer of node {follower} about queue asked")
        assert f"node {follower} leads" in good(rig, follower, "move", follower)
        assert rig.await_serving() == follower
        again = command(rig, leader, "queues", "--format", "json")
        assert [row["name"] for row in json.loads(again.stdout)["queues"]] == ["/asked"]


def test_a_node_that_is_forgotten_does_not_come_back(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    gone, left = (name for name in rig.nodes if name != leader)
    said = penstock(rig, leader, "forget", "--force", leader).stderr
    assert "leads: `penstock cluster move` first" in said
    for running in (leader, gone):
        assert (
            f"node '{running}' runs: stop it first" in penstock(rig, left, "forget", running).stderr
        )
    rig.stop(gone)
    answer = json.loads(good(rig, leader, "status", "--format", "json"))
    assert sorted(answer["quorum_critical"]) == sorted([leader, left])
    assert "a majority is" in penstock(rig, leader, "drain", left).stderr
    assert f"node {gone} is forgotten" in good(rig, leader, "forget", gone)
    end = time.monotonic() + 30
    while gone in json.loads(good(rig, leader, "status", "--format", "json"))["voters"]:
        assert time.monotonic() < end
    done = subprocess.run(
        rig.command(gone), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2 and "was forgotten" in done.stderr, done.stderr


def test_one_that_is_left_leads_alone_when_a_person_says_so(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    left = next(n for n in rig.nodes if n != leader and rig.nodes[n].process is not None)
    with load(rig, "forced") as queue:
        queue.await_confirms(20)
        refused = penstock(rig, left, "force-leader", left, "--yes")
        assert "which is a majority" in refused.stderr, refused.stderr
        rig.kill(leader)
        end = time.monotonic() + 60
        while penstock(rig, left, "status").returncode == 0:
            assert time.monotonic() < end, "a single node of two still has a leader"
        said = good(rig, left, "force-leader", left, "--yes")
        assert f"node {left} leads" in said
        assert rig.await_serving(leader) == left
        queue.await_confirms(20)
        # Those that were given up come back with empty directories, and nothing else to be done.
        shutil.rmtree(rig.nodes[leader].data)
        rig.start(leader)
        await_true(lambda: votes(rig, left) == {leader, left}, "it was copied, and votes")
        queue.await_confirms(20)


def votes(rig: ClusterRig, name: str) -> set[str]:
    """Who does, as node `name` has it."""
    answer = rig.status(name)
    return set() if answer is None else set(answer.voters)


def test_a_log_that_was_rotated_is_let_go_by_the_member_and_its_broker(folder: Path) -> None:
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd")
    rig = ClusterRig(folder, ("a",), port=free_port)
    log, rotated = folder / "node.log", folder / "node.log.1"
    rig.nodes["a"].options = ("--log-file", str(log))
    try:
        rig.start_etcd()
        rig.start("a")
        rig.await_serving()
        log.rename(rotated)
        member = rig.nodes["a"].process
        assert member is not None
        member.send_signal(signal.SIGHUP)

        def is_let_go() -> bool:
            process = psutil.Process(member.pid)
            both = [process, *process.children(recursive=True)]
            return all(str(rotated) != file.path for one in both for file in one.open_files())

        await_true(is_let_go, "nobody writes to the log of before")
        assert log.exists()
    finally:
        rig.close()


def test_sighup_has_the_leaders_broker_take_the_configuration_over(folder: Path) -> None:
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd")
    rig = ClusterRig(folder, ("a",), port=free_port)
    path = folder / "penstock.toml"
    path.write_text('memory_high = "1GB"\n', encoding="utf-8")
    rig.nodes["a"].options = ("--config", str(path))

    def mark() -> int:
        done = command(rig, "a", "status", "--format", "json")
        return int(json.loads(done.stdout)["memory_high_bytes"]) if done.returncode == 0 else 0

    try:
        rig.start_etcd()
        rig.start("a")
        rig.await_serving()
        assert mark() == 10**9
        member = rig.nodes["a"].process
        assert member is not None
        path.write_text('memory_high = "2GB"\n', encoding="utf-8")
        member.send_signal(signal.SIGHUP)
        await_true(lambda: mark() == 2 * 10**9, "the new mark is in force")
        path.write_text("memory_high = 7x", encoding="utf-8")
        member.send_signal(signal.SIGHUP)
        path.write_text('memory_high = "3GB"\n', encoding="utf-8")
        member.send_signal(signal.SIGHUP)
        await_true(lambda: mark() == 3 * 10**9, "a fault in between has ended nothing")
    finally:
        rig.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_try_that_is_ended_leaves_no_process_behind(folder: Path, number: int) -> None:
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd")
    place = folder / "tried"
    command = ["penstock.cli.main", "cluster", "try", "--keep", str(place)]
    with subprocess.Popen(
        ["env", "--default-signal=HUP,TERM", sys.executable, "-u", "-m", *command],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "node c starts" in line:
                break
        process.send_signal(number)
        process.stdout.read()
    left = [one for one in psutil.process_iter(["cmdline"]) if _names(one, place)]
    for one in left:
        one.kill()
    assert left == []


def _names(process: psutil.Process, place: Path) -> bool:
    return any(str(place) in word for word in process.info["cmdline"] or ())
