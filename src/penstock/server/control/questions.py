"""What the control socket answers: why, status, flow, queues, policies, limits, flight records."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Final

import penstock
from penstock.base.errors import OperatorError
from penstock.base.recent_lines import RecentLines
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import QueueCounts, Status
from penstock.broker.broker import Broker
from penstock.explain.asking import Question, answering
from penstock.explain.window_index import emptying
from penstock.server.control import questions_connections as connections
from penstock.server.control import questions_flow as flow
from penstock.server.control import questions_limits as limits
from penstock.server.control import questions_node as about_node
from penstock.server.control import questions_objects as objects
from penstock.server.control import questions_policies as policies
from penstock.server.control import questions_queues as queues
from penstock.server.control import questions_readers as reading
from penstock.server.control import questions_super_streams as super_streams
from penstock.server.control import questions_users as users
from penstock.server.control import questions_vhosts as vhosts
from penstock.server.control.control_socket import Reply
from penstock.server.control.questions_definitions import DefinitionQuestions
from penstock.server.control.questions_flow import WINDOW_S_MAX
from penstock.server.control.questions_log import log_question
from penstock.server.control.questions_record import RecordQuestions
from penstock.server.control.questions_round import round_question
from penstock.server.control.questions_store import store_answer
from penstock.server.control.request import Request
from penstock.server.machine.build import build_words
from penstock.server.recorder.service import RecorderService

DEFAULTS: Final = MappingProxyType(
    {
        "connections": "list",
        "queues": "list",
        "policies": "list",
        "limits": "list",
        "definitions": "export",
        "users": "list",
        "permissions": "list",
        "vhosts": "list",
        "super-streams": "list",
    }
)
"""What is done when a request does not say it."""
CHANGES: Final = frozenset(
    (
        *("add", "change-password", "clear", "clear-topic", "close", "delete", "import", "pause"),
        *("release", "resume", "set", "set-tags", "set-topic", "take"),
    )
)
"""Verbs that the audit log has."""
LOOKS_S: Final = MappingProxyType(
    {
        "queues list": queues.WINDOW_S,
        "flow edges": 1.0,
        "flow accounts": 1.0,
        "flow alarms": 1.0,
        "flow top": 10.0,
    }
)
"""Questions about the last seconds, and about how many unless they say it."""
STEP_ROWS: Final = 256
UNSAID: Final = frozenset(("op", "do", "password_hash", "definitions", "users", "elsewhere"))

STATELESS: Final[dict[str, Callable[[Request], Reply]]] = {
    "connections list": connections.listing,
    "flow edges": flow.edges,
    "flow accounts": flow.accounts_of,
    "flow alarms": flow.alarms,
    "flow settings": flow.settings,
    "flow set": flow.change,
    "flow take": flow.take_over,
    "flow top": flow.top,
    "objects connections": objects.connections,
    "objects channels": objects.channels,
    "objects consumers": objects.consumers,
    "objects queues": objects.queues,
    "objects exchanges": objects.exchanges,
    "objects bindings": objects.bindings,
    "objects vhosts": objects.vhosts,
    "objects login": about_node.login,
    "connections close": objects.close_connection,
    "connections seek": objects.seek_connection,
    "queues list": queues.listing,
    "queues pause": queues.pause,
    "queues resume": queues.pause,
    "queues release": queues.release,
    "queues readers": reading.readers,
    "queues seek": queues.seek,
    "policies list": policies.listing,
    "policies set": policies.change,
    "policies clear": policies.clear,
    "policies export": policies.export,
    "limits list": limits.listing,
    "limits set": limits.change,
    "limits clear": limits.clear,
    "users list": users.listing,
    "users add": users.add,
    "users delete": users.delete,
    "users change-password": users.change_password,
    "users set-tags": users.set_tags,
    "users kept": users.kept,
    "users take": users.take,
    "vhosts list": vhosts.listing,
    "vhosts add": vhosts.add,
    "vhosts delete": vhosts.delete,
    "super-streams list": super_streams.listing,
    "super-streams add": super_streams.add,
    "super-streams delete": super_streams.delete,
    "permissions list": users.permissions,
    "permissions set": users.permit,
    "permissions clear": users.forbid,
    "permissions set-topic": users.permit_topic,
    "permissions clear-topic": users.forget_topic,
    "store": store_answer,
}
"""Answers that need nothing but the question."""


class Questions:
    """Answers from the broker's present and the history of its last seconds. certificate: what is
    said of the one that TLS shows; listeners: the ports that clients come to; recent: lines of the
    log, None where it keeps none."""

    def __init__(
        self,
        broker: Broker,
        service: RecorderService,
        run_soon: Callable[[], None],
        certificate: Callable[[], str],
        listeners: Callable[[], list[dict[str, object]]] = list,
        recent: RecentLines | None = None,
    ) -> None:
        self.listeners = listeners
        self.certificate = certificate
        self.broker = broker
        self.history, self.totals = service.history, service.totals
        self.run_soon = run_soon
        definitions = DefinitionQuestions()
        records = RecordQuestions(service)
        self.answers: dict[str, Callable[[Request], Reply]] = {
            "why": self._why,
            "status": self._status,
            **STATELESS,
            "objects node": self._node,
            "definitions export": definitions.export,
            "definitions import": definitions.add,
            "definitions check": definitions.check,
            "record status": records.status,
            "record list": records.listing,
            "record save": records.save,
            "record part": records.part,
            "record round": round_question(service),
            "events": records.events,
            "log": log_question(recent),
        }

    def answer(self, fields: dict[str, object]) -> Reply:
        """Raises: OperatorError for a question it does not know, or a bad value in one."""
        op = str(fields.get("op"))
        do = fields.get("do", DEFAULTS.get(op, ""))
        found = self.answers.get(op) or self.answers.get(f"{op} {do}")
        if found is None:
            pairs = [name.partition(" ") for name in self.answers]
            known = [what for first, _, what in pairs if first == op]
            asked = f"{op} {do}" if known else op
            known = known or list(dict.fromkeys(first for first, _, _ in pairs))
            raise OperatorError(f"unknown question '{asked}'; one of: {', '.join(known)}")
        looks_s = LOOKS_S.get(op) or LOOKS_S.get(f"{op} {do}")
        if looks_s is not None:
            return self._looking(found, fields, looks_s)
        return found(Request(self.broker, fields, self.run_soon, self.history.over, self.history))

    def _looking(
        self, found: Callable[[Request], Reply], fields: dict[str, object], default_s: float
    ) -> Steps[object]:
        """Answer a question about the last seconds, which are looked up in steps before."""
        window_s = _seconds({"window_s": default_s} | fields, "window_s", default_s)
        if not 0 < window_s <= WINDOW_S_MAX:
            raise OperatorError(
                f"window of {window_s:g} s: must be above 0 and at most {WINDOW_S_MAX:g}"
            )
        look = yield from self.history.looking(window_s)
        windows = look.windows
        reply = found(Request(self.broker, fields, self.run_soon, lambda _: windows, self.history))
        answer: object = (yield from reply) if isinstance(reply, Generator) else reply
        yield from emptying((windows,))
        return answer

    def is_change(self, fields: dict[str, object]) -> bool:
        """Whether what is asked changes something."""
        return str(fields.get("do", "")) in CHANGES

    def note(self, fields: dict[str, object], who: str) -> None:
        """What was asked may be a change, which the audit log has; of secrets nothing is said."""
        if not self.is_change(fields):
            return
        op, do = str(fields.get("op")), str(fields.get("do", ""))
        what = {key: value for key, value in fields.items() if key not in UNSAID}
        self.broker.host.audit.note(who, "control socket", f"{op} {do}", "", what)

    def _why(self, request: Request) -> Steps[dict[str, object]]:
        answer = yield from answering(
            self.history,
            Question(
                request.text("kind", "publish"),
                request.text("name"),
                _seconds(request.fields, "window_s", 10.0),
                _seconds(request.fields, "ago_s", 0.0),
            ),
        )
        return {
            "explanation": answer.explanation,
            "text": answer.text,
            "exit_status": answer.exit_status,
        }

    def _node(self, request: Request) -> Steps[dict[str, object]]:
        found = yield from about_node.node(request, self.totals)
        more = {"listeners": self.listeners(), "flow": about_node.flow(self.broker, self.totals)}
        return {"items": [found | more]}

    def _status(self, _request: Request) -> Steps[dict[str, object]]:
        """A Status, in steps."""
        broker = self.broker
        count = ready = unacknowledged = bytes_ = consumers = 0
        states: Counter[str] = Counter()
        for vhost in list(broker.vhosts):
            for actor in broker.queues_in(vhost):
                count += 1
                ready += int(actor.messages.ready_count())
                unacknowledged += int(actor.unacked_count)
                bytes_ += int(actor.messages.bytes_ready + actor.unacked_bytes)
                consumers += len(actor.consumers)
                if count % STEP_ROWS == 0:
                    yield 0.0
        for index, connection in enumerate(list(broker.connections.values()), 1):
            states[connection.state(broker.clock.monotonic_ns())] += 1
            if index % STEP_ROWS == 0:
                yield 0.0
        queues = QueueCounts(count, ready, unacknowledged, bytes_, consumers)
        status = self._told(dict(states), queues)
        return {name: getattr(status, name) for name in status.__struct_fields__}

    def _told(self, connections: dict[str, int], queues: QueueCounts) -> Status:
        broker = self.broker
        return Status(
            version=penstock.__version__,
            build=build_words(),
            profile=broker.profile.name,
            sync=broker.stores.sync_rule.words() if broker.stores.stores else "",
            failure=broker.stores.failure,
            connections=connections,
            queues=queues,
            alarms=dict(broker.alarms),
            memory_bytes=broker.memory_used_bytes,
            memory_high_bytes=broker.memory_high_bytes,
            turns=int(broker.scheduler.turns),
            events_dropped=broker.recorder.dropped,
            certificate=self.certificate(),
        )


def _seconds(fields: Mapping[str, object], key: str, default: float) -> float:
    value = fields.get(key, default)
    if isinstance(value, int | float):
        return float(value)
    raise OperatorError(f"{key} = {value!r} is not a number of seconds")
