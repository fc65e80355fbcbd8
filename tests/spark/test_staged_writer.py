"""The exactly-once sink without a JVM: its writers' parts against a broker that is killed."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.io_blocking import Connection, connect
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.spark.connector.common.link import Wire
from penstock.spark.connector.common.options import SinkOptions, parse_sink
from penstock.spark.connector.sink.committer import StagedBatch, commit_batch, roll_back
from penstock.spark.connector.sink.messages import Origin, plan_rows
from penstock.spark.connector.sink.publisher import stage_rows
from tests.patience import until
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import patiently, queue_at, read_stream

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("PENSTOCK_SINK_KILLS", "6"))
"""Of broker, worker and driver together; 60 take about a minute and a half."""
TASK_ROWS = 150
SEND_BUFFER_BYTES = 32_768
REPLY_WAITS = 2
"""For the answer to the request that counts what is staged, on a busy machine."""


def sink(url: str, queue: str, **more: str) -> SinkOptions:
    given = {"url": url, "routingKey": queue, "delivery": "exactly-once", "appId": "job"}
    return parse_sink({**given, "reconnectTimeout": "10s", **more})


def batches(bodies: list[bytes]) -> Iterator[object]:
    pa = pytest.importorskip("pyarrow")
    for at in range(0, len(bodies), 50):
        yield pa.record_batch({"body": pa.array(bodies[at : at + 50])})


def stage(options: SinkOptions, bodies: list[bytes], batch: int, partition: int = 0) -> str:
    plan = plan_rows({"body": "binary"}, options)
    origin = Origin("query", str(batch), partition)
    identity, rows = stage_rows(batches(bodies), plan, options, origin, StagedBatch("job", batch))
    assert rows == len(bodies)
    return identity


def drain(url: str, queue: str) -> list[bytes]:
    """Everything in `queue`, acknowledged."""
    found: list[bytes] = []
    with patiently(url) as connection:
        channel = connection.channel()
        while (one := channel.get(queue, no_ack=True)) is not None:
            found.append(one.body)
    return found


def test_a_batch_is_seen_after_its_commit_and_committed_once(penstock_url: str) -> None:
    with queue_at(penstock_url) as (channel, queue):
        options = sink(penstock_url, queue, appId=f"once.{queue}")
        one = stage(options, [b"1", b"2"], 0)
        two = stage(options, [b"3"], 0, partition=1)
        assert channel.declare_queue(queue, passive=True).message_count == 0
        assert commit_batch(options, StagedBatch("job", 0), [one, two]) is True
        again = stage(options, [b"1", b"2"], 0)
        assert commit_batch(options, StagedBatch("job", 0), [again]) is False
        assert drain(penstock_url, queue) == [b"1", b"2", b"3"]
        roll_back(options, StagedBatch("job", 1), [stage(options, [b"x"], 1)])
        assert drain(penstock_url, queue) == []


def test_rows_that_are_delayed_wait_in_their_store_from_the_commit_on(penstock_url: str) -> None:
    pa = pytest.importorskip("pyarrow")
    with queue_at(penstock_url) as (channel, queue):
        later = f"later.{queue}"
        channel.declare_exchange(
            later, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
        )
        channel.bind_queue(queue, later, queue)
        options = sink(penstock_url, queue, exchange=later, appId=later, mandatory="false")
        plan = plan_rows({"body": "binary", "headers": "map<string,string>"}, options)
        headers = pa.array([[("x-delay", "700")], []], pa.map_(pa.string(), pa.string()))
        rows = pa.record_batch({"body": pa.array([b"later", b"now"]), "headers": headers})
        origin, batch = Origin("query", "0", 0), StagedBatch(later, 0)
        identity, _ = stage_rows([rows], plan, options, origin, batch)
        committed_s = time.monotonic()
        assert commit_batch(options, batch, [identity]) is True
        again, _ = stage_rows([rows], plan, options, origin, batch)
        assert commit_batch(options, batch, [again]) is False
        found: list[bytes] = []
        until(lambda: len(found) > 1, "both rows", lambda: found.extend(drain(penstock_url, queue)))
        # Not by what came first time: a machine that stood still has both by then.
        assert time.monotonic() - committed_s > 0.69
        assert found == [b"now", b"later"]
        assert drain(penstock_url, queue) == []
        strict = sink(penstock_url, queue, exchange=later, appId=later)
        with pytest.raises(ChannelClosedError, match="mandatory=false"):
            stage_rows([rows], plan, strict, origin, StagedBatch(later, 1))
        channel.ask(m.ExchangeDelete(later), m.ExchangeDeleteOk)


def test_a_broker_without_transactions_is_refused(rabbitmq_url: str) -> None:
    with queue_at(rabbitmq_url) as (_, queue):
        options = sink(rabbitmq_url, queue)
        with pytest.raises(OperatorError, match=r"penstock\.transactions"):
            stage(options, [b"1"], 0)


def test_a_task_larger_than_its_reservation_is_told_so(penstock_url: str) -> None:
    with queue_at(penstock_url) as (_, queue):
        options = sink(penstock_url, queue, maxStagedBytes="10k")
        with pytest.raises(OperatorError, match=r"max_bytes.*option maxStagedBytes, 10240 bytes"):
            stage(options, [b"x" * 1000] * 20, 0)


class Job:
    """A query whose driver, workers and broker die. `batch`: the next one; it is run again until
    its commit has been answered, as Spark does from its checkpoint."""

    def __init__(self, broker: MortalBroker, queues: list[str], dice: Random) -> None:
        self.broker = broker
        self.queues = queues
        self.dice = dice
        self.batch = 0
        self.kills = {"broker": 0, "worker": 0, "driver": 0}
        self.published: list[bytes] = []

    def rows(self, partition: int) -> list[bytes]:
        return [b"%d.%d.%d" % (self.batch, partition, n) for n in range(TASK_ROWS)]

    def run_batch(self) -> None:
        """One batch, to its end."""
        while not self._attempt():
            pass
        for partition in range(len(self.queues)):
            self.published += self.rows(partition)
        self.batch += 1

    def _attempt(self) -> bool:
        """One run of the batch; False when somebody died."""
        victim = self.dice.choice(["", "", "broker", "broker", "worker", "driver"])
        if victim == "":
            self._all()
            return True
        self.kills[victim] += 1
        if victim == "worker":
            # It dies in the middle of its rows; its connection goes with it.
            with pytest.raises(Killed):
                self._stage(0, self.dice.randrange(TASK_ROWS))
            return False
        if victim == "driver":
            # After the commit was carried out, and before Spark has written that down; or before.
            if self.dice.random() < 0.7:
                self._all()
            else:
                self._stage(0)
            return False
        timer = threading.Timer(self.dice.random() * 0.06, self.broker.kill)
        timer.start()
        try:
            self._all()
            is_done = True
        except (ClientError, OperatorError):
            is_done = False
        timer.join()
        self.broker.start()
        return is_done and self.dice.random() < 0.5

    def _all(self) -> None:
        found = [self._stage(partition) for partition in range(len(self.queues))]
        options = sink(self.broker.url, "", exchange="amq.direct", reconnectTimeout="0ms")
        commit_batch(options, StagedBatch("job", self.batch), found)

    def _stage(self, partition: int, until: int = TASK_ROWS) -> str:
        options = sink(self.broker.url, self.queues[partition], reconnectTimeout="0ms")
        rows = self.rows(partition)
        if until == TASK_ROWS:
            return stage(options, rows, self.batch, partition)

        def dying() -> Iterator[object]:
            yield from batches(rows[:until])
            raise Killed

        plan = plan_rows({"body": "binary"}, options)
        origin = Origin("query", str(self.batch), partition)
        return stage_rows(dying(), plan, options, origin, StagedBatch("job", self.batch))[0]


class Killed(Exception):
    """A worker dies."""


def number_of(body: bytes) -> list[int]:
    """Batch, partition and number of a row."""
    return [int(part) for part in body.split(b".")]


def test_no_row_is_lost_or_doubled_whoever_is_killed(tmp_path: Path) -> None:
    """Rows are counted at the end: acknowledgements are not synced one by one, so what a consumer
    has taken may come again after a kill, whoever published it."""
    dice = Random(int(os.environ.get("PENSTOCK_SINK_SEED", "5")))
    with MortalBroker(tmp_path) as broker:
        queues = ["one", "two"]
        stream: Table = {"x-queue-type": "stream"}
        with connect(broker.url) as connection:
            for name in queues:
                connection.channel().declare_queue(name, durable=True)
            connection.channel().declare_queue("log", durable=True, arguments=stream)
        job = Job(broker, [*queues, "log"], dice)
        while sum(job.kills.values()) < KILLS:
            job.run_batch()
        broker.kill()
        broker.start()
        rows = read_stream(broker.url, "log")
        assert rows == sorted(rows, key=number_of), "a stream has the commits in their order"
        seen = [body for name in queues for body in drain(broker.url, name)] + rows
    lost = set(job.published) - set(seen)
    doubled = len(seen) - len(set(seen))
    print(f"{job.batch} batches, {len(seen)} rows, kills {job.kills}, {broker.lives} lives")
    assert (len(lost), doubled) == (0, 0)
    assert set(seen) == set(job.published)


def test_staging_waits_for_room_only_and_not_for_an_answer_that_nobody_gives(
    penstock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker says nothing to what is staged before it is asked; a task that waited a second
    for it each time that the socket was full for a moment took 14 MB a second."""
    waits: list[tuple[float, bool]] = []
    wait = Wire._wait

    def recorded(wire: Wire, timeout_ms: float) -> bool:
        waits.append((timeout_ms, wire.wants_write()))
        return wait(wire, timeout_ms)

    begin = Wire.__init__

    def narrow(wire: Wire, connection: Connection, number: int) -> None:
        """However fast the broker reads, not all of a run fits in its socket at once."""
        begin(wire, connection, number)
        wire._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    with queue_at(penstock_url) as (_, queue):
        options = sink(penstock_url, queue, maxStagedBytes="64m")
        monkeypatch.setattr(Wire, "__init__", narrow)
        monkeypatch.setattr(Wire, "_wait", recorded)
        identity = stage(options, [bytes(10_240)] * 300, 0)
        monkeypatch.undo()
        roll_back(options, StagedBatch("job", 0), [identity])
    assert any(is_for_room for timeout_ms, is_for_room in waits if timeout_ms > 0.0)
    # The last one waits for the answer that tells how many there were.
    in_vain = [one for one in waits if one[0] > 0.0 and not one[1]]
    assert len(in_vain) <= 1 + REPLY_WAITS
