"""Celery on a broker that introduces itself as three different ones, and with native delays.

Celery decides by product and version of the broker how it sets its prefetch window: for the whole
channel with RabbitMQ 3.3 to 3.x, for each consumer otherwise. Only the former also changes the
window of a consumer that is there already, which the worker relies on while it holds tasks whose
time has not come.
"""

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.celery_worker import Plan, by_remote_control, celery_worker
from tests.conformance.live import Broker, penstock_process
from tests.patience import PATIENCE_S, undisturbed, until

pytestmark = [
    pytest.mark.slow,
    # Celery and kombu of today still use what Python has deprecated.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LEVELS = 28


class Identity(NamedTuple):
    """product, version: what the broker says it is; queue_kind: of Celery's queue, see celery_app;
    is_widening: whether Celery widens the window of a consumer that is there."""

    product: str
    version: str
    queue_kind: str
    is_widening: bool


OWN = Identity("Penstock", "", "priority", False)
of_each_identity = pytest.mark.parametrize(
    "setup",
    [
        OWN,
        Identity("RabbitMQ", "3.13.7", "priority", True),
        Identity("RabbitMQ", "4.1.0", "priority", False),
    ],
    ids=lambda one: f"{one.product}{one.version}",
    indirect=True,
    scope="module",
)
with_a_quorum_queue = pytest.mark.parametrize(
    "setup", [OWN._replace(queue_kind="quorum")], ids=["quorum"], indirect=True, scope="module"
)


class Setup(NamedTuple):
    """A broker with an identity, and Celery's application with a worker of one thread on it."""

    identity: Identity
    module: Any
    broker: Broker


@pytest.fixture(scope="module")
def setup(
    broker: Broker, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Setup]:
    """The worker is stopped by remote control."""
    if not broker.pid:
        pytest.skip("the broker from outside cannot be told what to call itself")
    identity: Identity = request.param
    folder = tmp_path_factory.mktemp("identity")
    config = f'product = "{identity.product}"\nproduct_version = "{identity.version}"\n'
    plan = Plan("rpc://", 1, identity.queue_kind)
    with (
        penstock_process(folder, config=config) as own,
        celery_worker(own, folder, plan, by_remote_control) as module,
    ):
        yield Setup(identity, module, own)


@of_each_identity
def test_tasks_that_wait_for_their_time_widen_the_window_as_the_identity_has_it(
    setup: Setup,
) -> None:
    """The window is one task. Celery widens it by each task it only holds until its time comes;
    on some identities to no effect for the consumer that is there."""
    module = setup.module
    inspect = module.app.control.inspect(limit=1, timeout=PATIENCE_S)
    # A second less is there to see it in: patience is for what is awaited.
    held_s = 5.0 if setup.identity.is_widening else 2.0

    def window() -> int:
        ((_, stats),) = inspect.stats().items()
        return int(stats["prefetch_count"])

    def held_at_most() -> int:
        usual = window()
        sent_s = time.time()
        late = [module.stamp_task.apply_async((0.0,), countdown=held_s) for _ in range(4)]
        held = 0
        while held <= 1 and time.time() < sent_s + held_s - 1:
            ((_, tasks),) = inspect.scheduled().items()
            held = len(tasks)
        done = [result.get(timeout=PATIENCE_S) for result in late]
        assert min(done) >= sent_s + held_s - 0.2, "none before its time"
        until(lambda: window() == usual, "the window is as it was")
        # The worker tells the broker a turn after it has answered.
        window()
        return held

    held = undisturbed(held_at_most, 0.3, setup.broker.pid)
    assert (held > 1) == setup.identity.is_widening, held


@of_each_identity
def test_priorities(setup: Setup, tmp_path: Path) -> None:
    """What waits behind a task at work is done in the order of priorities. Celery takes tasks out
    of the queue before it works on them, so the window's worth of them goes first."""
    module = setup.module
    window = int(module.app.conf.worker_prefetch_multiplier)
    busy = tmp_path / "busy"
    busy.touch()
    first = [module.busy_task.delay(str(busy)) for _ in range(window)]
    until(lambda: ready(module) == 0, "the window is full")
    ranks = [1, 5, 9, 3, 7]
    waiting = [module.stamp_task.apply_async((0.0,), priority=rank) for rank in ranks]
    until(lambda: ready(module) == len(ranks), "the others are in the queue")
    busy.unlink()
    stamps = [result.get(timeout=PATIENCE_S) for result in waiting]
    by_time = [rank for _, rank in sorted(zip(stamps, ranks, strict=True))]
    assert by_time == [9, 7, 5, 3, 1]
    assert max(result.get(timeout=PATIENCE_S) for result in first) < min(stamps)


def ready(module: Any) -> int:
    """Tasks in the queue that no worker has taken."""
    with module.app.connection() as connection:
        count: int = connection.default_channel.queue_declare(module.QUEUE, passive=True)[1]
        return count


@of_each_identity
def test_a_rate_limit_by_remote_control(setup: Setup) -> None:
    module = setup.module
    control = module.app.control
    (answer,) = control.rate_limit("add", "5/s", reply=True, limit=1, timeout=PATIENCE_S)
    assert [set(said) for said in answer.values()] == [{"ok"}]
    begin_s = time.monotonic()
    results = [module.add_task.delay(n, n) for n in range(6)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == [2 * n for n in range(6)]
    assert time.monotonic() - begin_s >= 0.8, "six tasks at five a second"
    control.rate_limit("add", "0", reply=True, limit=1, timeout=PATIENCE_S)


@of_each_identity
def test_queues_come_and_go_by_remote_control(setup: Setup) -> None:
    module = setup.module
    control = module.app.control
    other = f"{module.QUEUE}.other"
    control.add_consumer(other, reply=True, limit=1, timeout=PATIENCE_S)
    inspect = control.inspect(limit=1, timeout=PATIENCE_S)

    def are(*wanted: str) -> bool:
        # The worker answers before it does it.
        ((_, queues),) = inspect.active_queues().items()
        return {one["name"] for one in queues} == set(wanted)

    until(lambda: are(module.QUEUE, other), "it consumes from both")
    assert module.add_task.apply_async((1, 2), queue=other).get(timeout=PATIENCE_S) == 3
    control.cancel_consumer(other, reply=True, limit=1, timeout=PATIENCE_S)
    until(lambda: are(module.QUEUE), "it consumes from its own only")


@of_each_identity
def test_a_revoked_task_is_not_run(setup: Setup, tmp_path: Path) -> None:
    module = setup.module
    held = tmp_path / "busy"
    held.touch()
    busy = module.busy_task.delay(str(held))
    behind = module.stamp_task.delay(0.0)
    module.app.control.revoke(behind.id, reply=True, limit=1, timeout=PATIENCE_S)
    held.unlink()
    assert busy.get(timeout=PATIENCE_S) > 0
    with pytest.raises(import_module("celery.exceptions").TaskRevokedError):
        behind.get(timeout=PATIENCE_S)


@with_a_quorum_queue
def test_the_broker_delays_natively(setup: Setup) -> None:
    """Delays of one second, and of three: 3 is two of the 28 levels one after the other."""
    module = setup.module
    sent_s = time.time()
    results = {
        seconds: module.stamp_task.apply_async((0.0,), countdown=seconds) for seconds in (1, 3)
    }
    inspect = module.app.control.inspect(limit=1, timeout=PATIENCE_S)
    ((_, held),) = inspect.scheduled().items()
    assert held == [], "the worker holds none of them"
    for seconds, result in results.items():
        took_s = result.get(timeout=PATIENCE_S) - sent_s
        # Celery rounds the time to come up or down to whole seconds.
        assert seconds - 1.05 <= took_s < PATIENCE_S, (seconds, took_s)


@with_a_quorum_queue
def test_a_retry_is_delayed_natively(setup: Setup) -> None:
    took_s = setup.module.late_task.delay(1).get(timeout=PATIENCE_S)
    assert 0.0 <= took_s < PATIENCE_S


@with_a_quorum_queue
def test_the_topology_of_native_delays(setup: Setup) -> None:
    """All levels exist, with times to live up to more than four years, as quorum queues."""
    kombu = import_module("kombu")
    with setup.module.app.connection() as connection:
        channel = connection.channel()
        for level in range(LEVELS):
            name = f"celery_delayed_{level}"
            channel.queue_declare(name, passive=True)
            kombu.Exchange(name, type="topic", channel=channel, passive=True).declare()
        kombu.Queue(
            f"celery_delayed_{LEVELS - 1}",
            queue_arguments={
                "x-queue-type": "quorum",
                "x-overflow": "reject-publish",
                "x-message-ttl": 2 ** (LEVELS - 1) * 1000,
                "x-dead-letter-exchange": f"celery_delayed_{LEVELS - 2}",
                "x-dead-letter-strategy": "at-least-once",
            },
            channel=channel,
        ).declare()
