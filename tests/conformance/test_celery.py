"""Celery: a worker process of its own with prefetch, retries, ETA, groups, events and control."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from tests.conformance.celery_worker import Plan, celery_worker
from tests.conformance.live import Broker
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    # Celery and kombu of today still use what Python has deprecated.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", params=["rpc", "file"])
def app(
    broker: Broker, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The application, with one worker of two threads running; stopped by SIGTERM at the end.

    Results come through the broker (`rpc`), or through files: chords need a shared store.
    """
    folder = tmp_path_factory.mktemp(f"celery-{request.param}")
    backend = "rpc://" if request.param == "rpc" else f"file://{folder}"
    with celery_worker(broker, folder, Plan(backend)) as module:
        yield module


def test_many_tasks(app: Any) -> None:
    results = [app.add_task.delay(n, n) for n in range(100)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == [2 * n for n in range(100)]


def test_a_group(app: Any) -> None:
    group = import_module("celery").group
    result = group(app.add_task.s(n, 1) for n in range(10)).apply_async()
    assert result.get(timeout=PATIENCE_S) == list(range(1, 11))


def test_a_chain(app: Any) -> None:
    chain = app.add_task.s(1, 2) | app.add_task.s(3) | app.add_task.s(4)
    assert chain.apply_async().get(timeout=PATIENCE_S) == 10


def test_a_chord(app: Any) -> None:
    """Celery polls for the header's results with a task that retries by ETA."""
    if app.app.conf.result_backend.startswith("rpc"):
        pytest.skip("Celery cannot do chords with rpc://")
    header = (app.add_task.s(n, n) for n in range(5))
    result = import_module("celery").chord(header)(app.total_task.s())
    assert result.get(timeout=PATIENCE_S) == 20


def test_a_retry(app: Any) -> None:
    assert app.stubborn_task.delay(3).get(timeout=PATIENCE_S) == 3


def test_a_failure_comes_back(app: Any) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        app.failing_task.delay().get(timeout=PATIENCE_S)


def test_a_countdown_and_an_eta(app: Any) -> None:
    """Both wait unacknowledged in the worker, which raises its prefetch for them."""
    soon = datetime.now(UTC) + timedelta(seconds=1)
    results = [app.add_task.apply_async((n, 0), countdown=1) for n in range(5)]
    results.append(app.add_task.apply_async((5, 0), eta=soon))
    assert [result.get(timeout=PATIENCE_S) for result in results] == list(range(6))


def test_an_expired_task_is_revoked(app: Any) -> None:
    revoked = import_module("celery.exceptions").TaskRevokedError
    with pytest.raises(revoked):
        app.add_task.apply_async((1, 1), expires=-1).get(timeout=PATIENCE_S)


def test_remote_control(app: Any) -> None:
    (answer,) = app.app.control.ping(timeout=PATIENCE_S, limit=1)
    (worker,) = answer
    assert answer[worker] == {"ok": "pong"}
    inspect = app.app.control.inspect(timeout=PATIENCE_S, limit=1)
    assert set(inspect.registered()[worker]) >= {"add", "failing", "stubborn", "total"}
    stats = inspect.stats()[worker]
    assert stats["prefetch_count"] >= 2
    assert stats["broker"]["transport"] == "amqp"


def test_events(app: Any) -> None:
    seen: set[tuple[str, str]] = set()

    def keep(event: dict[str, Any]) -> None:
        # Events of tasks before this one may still be on their way.
        seen.add((str(event.get("uuid")), event["type"]))

    with app.app.connection() as opened:
        receiver = app.app.events.Receiver(opened, handlers={"*": keep})
        with receiver.consumer_context() as (connection, _, _):
            result = app.add_task.delay(1, 2)
            assert result.get(timeout=PATIENCE_S) == 3
            while (result.id, "task-succeeded") not in seen:
                connection.drain_events(timeout=PATIENCE_S)
    assert {(result.id, "task-received"), (result.id, "task-started")} <= seen
