"""What the control socket answers: why, status, flow, queues, policies, limits, flight records."""

from collections.abc import Callable

import penstock
from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import QueueCounts, Status
from penstock.broker.broker import Broker
from penstock.explain.asking import Question, ask_why
from penstock.server.control.control_socket import Reply
from penstock.server.control.questions_definitions import DefinitionQuestions
from penstock.server.control.questions_flow import FlowQuestions
from penstock.server.control.questions_limits import LimitQuestions
from penstock.server.control.questions_policies import PolicyQuestions
from penstock.server.control.questions_queues import QueueQuestions
from penstock.server.control.questions_record import RecordQuestions
from penstock.server.control.questions_store import StoreQuestions
from penstock.server.machine.build import build_words
from penstock.server.recorder.service import RecorderService


class Questions:
    """Answers from the broker's present and the history of its last seconds."""

    def __init__(self, broker: Broker, deck: RecorderService, run_soon: Callable[[], None]) -> None:
        self.broker = broker
        self.history = deck.history
        self.records = RecordQuestions(deck)
        self.flow = FlowQuestions(broker, self.history.over, run_soon)
        self.queues = QueueQuestions(broker, self.history.over, run_soon)
        self.policies = PolicyQuestions(broker, run_soon)
        self.limits = LimitQuestions(broker)
        self.definitions = DefinitionQuestions(broker, run_soon)
        self.stores = StoreQuestions(broker)

    def answer(self, request: dict[str, object]) -> Reply:
        """Raises: OperatorError for a question it does not know."""
        op = request.get("op")
        if op == "why":
            return self._why(request)
        if op == "status":
            return self._status()
        if op == "flow":
            return self.flow.answer(request)
        if op == "queues":
            return self.queues.answer(request)
        if op == "policies":
            return self.policies.answer(request)
        if op == "limits":
            return self.limits.answer(request)
        if op == "definitions":
            return self.definitions.answer(request)
        if op == "store":
            return self.stores.answer()
        if op == "record":
            return self.records.record(request)
        if op == "events":
            return self.records.events(request)
        known = "why, status, flow, queues, policies, limits, definitions, store, record, events"
        raise OperatorError(f"unknown question {op!r}; one of: {known}")

    def _why(self, request: dict[str, object]) -> dict[str, object]:
        answer = ask_why(
            self.history,
            Question(
                str(request.get("kind", "publish")),
                str(request.get("name", "")),
                _seconds(request, "window_s", 10.0),
                _seconds(request, "ago_s", 0.0),
            ),
        )
        return {
            "explanation": answer.explanation,
            "text": answer.text,
            "exit_status": answer.exit_status,
        }

    def _status(self) -> Status:
        broker = self.broker
        now_ns = broker.clock.monotonic_ns()
        return Status(
            version=penstock.__version__,
            build=build_words(),
            profile=broker.profile.name,
            sync=broker.stores.sync_rule.words() if broker.stores.stores else "",
            failure=broker.stores.failure,
            connections={one.name: one.state(now_ns) for one in broker.connections.values()},
            queues={
                actor.identity: QueueCounts(
                    int(actor.messages.ready_count()),
                    int(actor.unacked_count),
                    int(actor.messages.bytes_ready + actor.unacked_bytes),
                    len(actor.consumers),
                )
                for vhost in broker.vhosts.values()
                for actor in vhost.queues.values()
            },
            alarms=dict(broker.alarms),
            memory_bytes=broker.memory_used_bytes,
            memory_high_bytes=broker.memory_high_bytes,
            turns=int(broker.scheduler.turns),
            events_dropped=broker.recorder.dropped,
        )


def _seconds(request: dict[str, object], key: str, default: float) -> float:
    value = request.get(key, default)
    if isinstance(value, int | float):
        return float(value)
    raise OperatorError(f"{key} = {value!r} is not a number of seconds")
