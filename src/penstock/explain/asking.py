"""One question about the flow, one answer: the same for a running broker and for a saved record.

Everything an answer is made of lies in the history, so whoever has the same history gets the same
answer to the letter. Pure.
"""

from dataclasses import asdict, dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.explain.beyond import beyond
from penstock.explain.explain import explain
from penstock.explain.memory import NODE, explain_memory, render_memory
from penstock.explain.naming import named
from penstock.explain.render import plain, render
from penstock.explain.subjects import KINDS
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.rates import NS_PER_S

WHY_KINDS: Final = (*KINDS, "publish", "memory", "not")
WINDOW_S_MAX: Final = 600.0
ACCOUNTING: Final = "accounting"
"""Label of the node; `off` where nothing is kept that could be explained."""


@dataclass(frozen=True, slots=True)
class Question:
    """kind: one of WHY_KINDS; name: see explain; window_s: seconds looked at, above 0 and at most
    WINDOW_S_MAX; ago_s: the window ends so long before the newest round, 0.. ."""

    kind: str = "publish"
    name: str = ""
    window_s: float = 10.0
    ago_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """explanation: plain data for JSON, see docs/why.md; text: for people; exit_status: 0 fine,
    2 no such actor, 3 throttled."""

    explanation: dict[str, object]
    text: str
    exit_status: int


def ask_why(history: FlightHistory, question: Question) -> Answer:
    """Raises: OperatorError on a kind, a window or a moment that there is not."""
    kind = question.kind
    if kind not in WHY_KINDS:
        raise OperatorError(f"unknown kind '{kind}'; one of: {', '.join(WHY_KINDS)}")
    if not 0 < question.window_s <= WINDOW_S_MAX:
        raise OperatorError(
            f"window of {question.window_s:g} s: must be above 0 and at most {WINDOW_S_MAX:g}"
        )
    look = history.look(question.window_s, _until_ns(history, question.ago_s))
    node = look.windows.get(NODE)
    if node is not None and node.labels.get(ACCOUNTING) == "off":
        raise OperatorError(
            "time accounting is switched off on this broker (time_accounting = false), so nothing "
            "is known of who waits for whom; switch it on and restart"
        )
    windows = named(beyond(look.windows))
    # A broker that has just started cannot speak of ten seconds.
    span_s = round(look.span_s, 1) or question.window_s
    if kind == "memory":
        before = history.over(1.0, look.end_ns - round(look.span_s * NS_PER_S)).get(NODE)
        was = 0.0 if before is None else before.numbers.get("memory_bytes", 0.0)
        about = explain_memory(windows, was, look.span_s)
        return Answer(asdict(about), plain(render_memory(about)), about.exit_status())
    found = explain(kind, question.name, windows, look.end_ns, min(span_s, question.window_s))
    plain_data = asdict(found)
    plain_data["waits"] = [wait.plain() for wait in found.waits]
    return Answer(plain_data, render(found), found.exit_status())


def _until_ns(history: FlightHistory, ago_s: float) -> int | None:
    if ago_s == 0:
        return None
    newest_ns, oldest_ns = history.newest_ns(), history.oldest_ns()
    if newest_ns is None or oldest_ns is None:
        return None
    until_ns = newest_ns - round(ago_s * NS_PER_S)
    if ago_s < 0 or until_ns < oldest_ns:
        reach_s = (newest_ns - oldest_ns) / NS_PER_S
        raise OperatorError(f"{ago_s:g} s ago is not known; the history reaches {reach_s:g} s back")
    return until_ns
