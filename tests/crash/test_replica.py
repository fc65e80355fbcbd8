"""A broker whose disk is recorded, killed at any moment: a plain broker on the follower's directory
has everything that was confirmed."""

import asyncio
import shutil
import time
from pathlib import Path
from random import Random

import pika
import pika.exceptions
import pytest

from penstock.replication.operations import decode
from penstock.server.cluster import pipe
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.cluster.position import PositionFile, Stored
from penstock.server.machine.spawn import spawn_child
from tests.crash.live import served
from tests.crash.replica import PERSISTENT, Led, made_of, streamed, taken
from tests.patience import PATIENCE_S
from tests.unit.server.cluster.member_bed import Follower, Member, contents, wait_until
from tests.unit.server.wire import book_of, running

COUNT = 40
PREFIXES = 25


def fill(led: Led) -> pika.BlockingConnection:
    """One of each kind; returns a connection with an unacknowledged delivery."""
    link = led.connect()
    channel = link.channel()
    channel.queue_declare("classic", durable=True)
    channel.queue_declare("held", durable=True)
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("later", durable=True)
    channel.queue_declare("gone", durable=True)
    channel.exchange_declare(
        "delays", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    channel.queue_bind("later", "delays", "later")
    channel.queue_delete("gone")
    channel.confirm_delivery()
    for number in range(COUNT):
        for queue in ("classic", "quorum", "stream"):
            channel.basic_publish("", queue, b"%s %d" % (queue.encode(), number), PERSISTENT)
    for number in range(3):
        channel.basic_publish("", "held", b"held %d" % number, PERSISTENT)
    late = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 1500})
    channel.basic_publish("delays", "later", b"late", late)
    for _ in range(5):
        method, _, _ = channel.basic_get("classic")
        assert method is not None
        channel.basic_ack(method.delivery_tag)
    for _ in range(3):
        assert channel.basic_get("held")[0] is not None
    other = link.channel()
    other.tx_select()
    for number in range(4):
        other.basic_publish("", "classic", b"tx %d" % number, PERSISTENT)
    other.tx_commit()
    return link


def check(port: int) -> None:
    """Everything that `fill` was told is there."""
    link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = link.channel()
    classic = taken(channel, "classic")
    wanted = [b"classic %d" % number for number in range(COUNT)]
    wanted += [b"tx %d" % number for number in range(4)]
    # What was acknowledged last may come back after a kill.
    assert classic[-len(wanted) + 5 :] == wanted[5:]
    assert classic == wanted[-len(classic) :]
    assert taken(channel, "quorum") == [b"quorum %d" % number for number in range(COUNT)]
    assert taken(channel, "held") == [b"held %d" % number for number in range(3)]
    assert streamed(channel, "stream", COUNT) == [b"stream %d" % n for n in range(COUNT)]
    end = time.monotonic() + PATIENCE_S
    late: list[bytes] = []
    while not late and time.monotonic() < end:
        late = taken(channel, "later")
        time.sleep(0.05)
    assert late == [b"late"]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("gone", passive=True)
    link.close()


def test_what_was_confirmed_is_on_the_follower_after_kill_9(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "follower")
    led = Led(tmp_path / "leader", follower)
    led.wait_ready()
    link = fill(led)
    committed = follower.told
    led.kill()
    follower.close()
    with pytest.raises(pika.exceptions.AMQPError):
        link.channel()
    # No more than what was committed when the last confirm had come.
    made_of(led.member.entries[:committed], tmp_path / "committed")
    for name in ("committed", "follower"):
        with served(tmp_path / name, tmp_path) as broker:
            check(broker.port)


def test_after_a_clean_stop_both_directories_are_the_same(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "follower")
    led = Led(tmp_path / "leader", follower)
    led.wait_ready()
    link = fill(led)
    link.close()
    assert led.stop() == 0
    assert led.member.done() == led.member.count
    follower.wait(led.member.count)
    follower.close()
    assert contents(tmp_path / "leader") == contents(tmp_path / "follower")
    assert PositionFile(tmp_path / "follower").read() == Stored(1, led.member.count, True)
    led.member.close()
    # The other one leads now, and the first one follows it.
    back = Follower(tmp_path / "leader")
    second = Led(tmp_path / "follower", back)
    ready = second.wait_ready()
    assert (ready.queues, ready.bindings) == (5, 1)
    assert ready.messages >= COUNT * 3
    check(second.port)
    assert second.stop() == 0
    back.wait(second.member.count)
    back.close()
    second.member.close()
    assert contents(tmp_path / "leader") == contents(tmp_path / "follower")


def test_nothing_is_confirmed_before_it_is_committed(tmp_path: Path) -> None:
    led = Led(tmp_path / "leader", None, Member.NEVER)
    led.wait_ready()
    parameters = pika.ConnectionParameters("127.0.0.1", led.port)
    link = pika.BlockingConnection(parameters)
    channel = link.channel()
    channel.queue_declare("classic", durable=True)
    confirmed: list[int] = []
    impl = channel._impl
    channel.confirm_delivery()
    impl.add_callback(
        lambda frame: confirmed.append(frame.method.delivery_tag), [pika.spec.Basic.Ack], False
    )
    impl.basic_publish("", "classic", b"one", PERSISTENT)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        link.process_data_events(0.05)
    wait_until(lambda: led.member.done() == led.member.count > 0, "the leader's own disk")
    assert confirmed == []
    led.member.commit(led.member.count)
    end = time.monotonic() + PATIENCE_S
    while not confirmed and time.monotonic() < end:
        link.process_data_events(0.05)
    assert confirmed == [1]
    link.close()
    led.kill()


def test_without_its_member_it_stops_with_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "follower")
    led = Led(tmp_path / "leader", follower)
    led.wait_ready()
    link = fill(led)
    led.member.close()
    before = contents(tmp_path / "leader")
    assert led.process.wait(PATIENCE_S) == 1
    assert contents(tmp_path / "leader") == before
    follower.close()
    with pytest.raises(pika.exceptions.AMQPError):
        link.channel()


def test_a_directory_in_use_is_told_to_the_member(tmp_path: Path) -> None:
    first = Led(tmp_path / "leader", None, Member.AT_ONCE)
    first.wait_ready()
    second = Led(tmp_path / "leader", None, Member.AT_ONCE)
    assert "is used by pid" in second.member.wait_for(pipe.FAILED).decode()
    assert second.process.wait(PATIENCE_S) == 1
    second.member.close()
    first.kill()


def test_a_broker_opens_what_any_prefix_of_operations_has_left(tmp_path: Path) -> None:
    """As after a leader that died anywhere: nothing is damaged, and nothing refuses to start."""
    led = Led(tmp_path / "leader", None, Member.AT_ONCE)
    led.wait_ready()
    link = fill(led)
    link.close()
    led.kill()
    operations = [one for entry in led.member.entries for one in decode(entry)]
    assert len(operations) > 200
    chance = Random(3)
    ends = {*range(1, 12), len(operations), *chance.sample(range(12, len(operations)), PREFIXES)}

    async def opens(data: Path) -> list[str]:
        async with running(tmp_path, data_dir=str(data)) as node:
            return list(book_of(node).lines)

    files = FollowerFiles(tmp_path / "grows")
    files.root.mkdir()
    files.rows()
    for number, one in enumerate(operations, 1):
        files.apply(one)
        if number not in ends:
            continue
        files.commit()
        shutil.copytree(files.root, tmp_path / str(number))
        lines = asyncio.run(opens(tmp_path / str(number)))
        assert not [line for line in lines if "damaged" in line or "set aside" in line], number
    files.close()


def test_a_warm_broker_has_opened_nothing_and_ends_with_its_member() -> None:
    process, sock = spawn_child()
    member = Member(sock)
    member.wait_for(pipe.WARM)
    folder = Path(f"/proc/{process.pid}/fd")
    opened = [one.readlink() for one in folder.iterdir()]
    assert not [one for one in opened if one.suffix in (".sqlite", ".log", "") and one.is_file()]
    member.close()
    assert process.wait(PATIENCE_S) == 0
    assert member.entries == []
