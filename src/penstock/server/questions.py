"""What the control socket answers: why, flow, status."""

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.broker import Broker
from penstock.telemetry.explain import KINDS, explain
from penstock.telemetry.render import render
from penstock.telemetry.window import WindowHistory

WINDOW_S_MAX = 60.0


class Questions:
    """Answers from the broker's present and the history of its last seconds."""

    def __init__(self, broker: Broker, history: WindowHistory) -> None:
        self.broker = broker
        self.history = history

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        """Raises: OperatorError for a question it does not know."""
        op = request.get("op")
        if op == "why":
            return self._why(request)
        if op == "status":
            return self._status()
        raise OperatorError(f"unknown question {op!r}; one of: why, status")

    def _why(self, request: dict[str, object]) -> dict[str, object]:
        kind = str(request.get("kind", "publish"))
        name = str(request.get("name", ""))
        window = request.get("window_s", 10.0)
        if not isinstance(window, int | float) or not 0 < window <= WINDOW_S_MAX:
            raise OperatorError(f"window of {window} s: must be above 0 and at most {WINDOW_S_MAX}")
        if kind == "memory":
            return self._why_memory()
        if kind not in KINDS and kind not in ("publish", "not"):
            raise OperatorError(f"unknown kind '{kind}'; one of: {', '.join(KINDS)}, publish, not")
        windows = self.history.over(float(window))
        answer = explain(
            kind,
            self._by_given_name(kind, name),
            windows,
            self.broker.clock.monotonic_ns(),
            float(window),
        )
        return {
            "explanation": msgspec.to_builtins(answer),
            "text": render(answer),
        }

    def _why_memory(self) -> dict[str, object]:
        """Who holds the memory: use, watermark, and the five biggest queues."""
        broker = self.broker
        held = {
            actor.identity: int(actor.messages.bytes_ready + actor.unacked_bytes)
            for vhost in broker.vhosts.values()
            for actor in vhost.queues.values()
        }
        biggest = sorted(held.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
        used, high = broker.memory_used_bytes, broker.memory_high_bytes
        is_held = "alarm:memory" in broker.alarms
        lines = [
            f"memory: {used / 1e6:,.1f} MB of {high / 1e6:,.1f} MB used "
            f"({100 * used / max(1, high):.1f} %); "
            + (
                "publishing is held for every connection, consumers continue"
                if is_held
                else "nothing is held for memory"
            )
        ]
        lines += [f"  {name}  {size / 1e6:,.1f} MB" for name, size in biggest if size > 0]
        return {
            "explanation": {
                "used_bytes": used,
                "limit_bytes": high,
                "is_held": is_held,
                "queues": dict(biggest),
                "blocked_share": 1.0 if is_held else 0.0,
            },
            "text": "\n".join(lines),
        }

    def _by_given_name(self, kind: str, name: str) -> str:
        """A connection's own name for itself, where the client gave one, leads to its peer name."""
        if kind == "connection":
            for one in self.broker.negotiators.values():
                if one.client_properties.get("connection_name") == name:
                    return one.peer
        return name

    def _status(self) -> dict[str, object]:
        broker = self.broker
        now_ns = broker.clock.monotonic_ns()
        return {
            "profile": broker.profile.name,
            "connections": {one.name: one.state(now_ns) for one in broker.connections.values()},
            "queues": {
                actor.identity: {
                    "ready": int(actor.messages.ready_count()),
                    "unacked": int(actor.unacked_count),
                    "bytes": int(actor.messages.bytes_ready + actor.unacked_bytes),
                    "consumers": len(actor.consumers),
                }
                for vhost in broker.vhosts.values()
                for actor in vhost.queues.values()
            },
            "alarms": dict(broker.alarms),
            "memory_bytes": broker.memory_used_bytes,
            "memory_high_bytes": broker.memory_high_bytes,
            "turns": int(broker.scheduler.turns),
            "events_dropped": broker.recorder.dropped,
        }
