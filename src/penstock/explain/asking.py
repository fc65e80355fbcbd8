"""One question about the flow, one answer: the same for a running broker and for a saved record.

An answer is made from the history alone, so the same history gives the same answer to the letter.
`why memory` says what is used of what, which actors hold it, and who is stopped for it. Pure.
"""

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.steps import whole
from penstock.explain.alarm_advice import about_alarm
from penstock.explain.consumer_causes import comparing
from penstock.explain.explain import explaining
from penstock.explain.explanation import FREE, THROTTLED, ActorShare
from penstock.explain.graph_extension import extending
from penstock.explain.kinds import KINDS, UNNAMED, WHY_KINDS
from penstock.explain.memory_forecast import BASE, NODE, forecasting
from penstock.explain.naming import naming
from penstock.explain.render import plain, render
from penstock.explain.window_index import Least, WindowIndex, emptying, indexed, indexing, paced
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S
from penstock.telemetry.words import called, duration, percent, size

SHOWN: Final = 5
ENDS: Final = {
    "paging": "until the queues that grow go on to the disk",
    "depth": "until the queues that grow hold their publishers",
}
ALARM: Final = "alarm:memory"
WINDOW_S_MAX: Final = 600.0
ACCOUNTING: Final = "accounting"
"""Label of the node; `off` where nothing is kept that could be explained."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that a queue or an account holds; share: 0..1 of all that is held."""

    name: str
    bytes: int
    share: float


@dataclass(frozen=True, slots=True)
class MemoryExplanation:
    """state: THROTTLED while the alarm holds publishers, else FREE. used_bytes: of the process or
    its cgroup; limit_bytes: where the alarm rings; clear_bytes: where it ends, 0 if unknown;
    held_bytes: of it in queues, mailboxes and outputs; blocked_share: 1.0 while publishing is held,
    else 0.0; who: whom the alarm stops, in words; stopped: connections held by it, with the share
    of the window; queues, accounts: the largest, bytes; ended_bytes: of connections that are gone;
    growth_bytes_per_s: of held_bytes in the window; base_bytes: of used_bytes, the broker itself;
    alarm_in_s: when the alarm rings if this goes on, None if it does not within a day; stops_at:
    what ends the growth before, `paging` or `depth`, else "";
    suggestions: what ends the alarm, best first."""

    state: str
    text: str
    used_bytes: int
    limit_bytes: int
    clear_bytes: int
    held_bytes: int
    is_held: bool
    blocked_share: float
    who: str
    stopped: tuple[ActorShare, ...]
    queues: tuple[Holding, ...]
    accounts: tuple[Holding, ...]
    ended_bytes: int
    growth_bytes_per_s: float
    suggestions: tuple[str, ...] = ()
    base_bytes: int = 0
    alarm_in_s: float | None = None
    stops_at: str = ""

    def exit_status(self) -> int:
        """For a command: 3 while publishing is held, 0 otherwise."""
        return 3 if self.state == THROTTLED else 0


def explain_memory(
    windows: Mapping[str, ActorWindow], before: Mapping[str, ActorWindow], span_s: float
) -> MemoryExplanation:
    """before: how all stood at the start of the window, span_s seconds earlier."""
    return whole(explaining_memory(indexed(windows), before, span_s))


def explaining_memory(
    windows: WindowIndex, before: Mapping[str, ActorWindow], span_s: float
) -> Generator[float, None, MemoryExplanation]:
    """The same in steps."""
    node = windows.get(NODE)
    alarm = windows.get(ALARM)
    numbers = {} if node is None else node.numbers
    used, limit = numbers.get("used_bytes", 0.0), numbers.get("limit_bytes", 0.0)
    held = numbers.get("memory_bytes", 0.0)
    queues = yield from _largest(windows.of_kind("queue"))
    accounts = yield from _largest(windows.of_kind("conn"))
    stopped: Least[ActorShare] = Least(SHOWN)
    ended_bytes = 0.0
    for w in paced(windows.of_kind("conn")):
        if w is None:
            yield 0.0
            continue
        for block in w.blocks if w.window_ns > 0 else ():
            if block.peer == ALARM and block.ns > 0:
                part = ActorShare(w.actor, min(1.0, block.ns / w.window_ns))
                stopped.offer((-part.share, part.name, block.reason), part)
    for w in paced(windows.of_kind("user")):
        if w is None:
            yield 0.0
        else:
            ended_bytes += w.numbers.get("ended_bytes", 0.0)
    coming = yield from forecasting(windows, before, span_s)
    text = f"memory: {size(used)} of {size(limit)} used ({percent(used / limit if limit else 0)})"
    text += "; the alarm is set" if alarm is not None else "; nothing is held for memory"
    return MemoryExplanation(
        THROTTLED if alarm is not None else FREE,
        text,
        round(used),
        round(limit),
        round(numbers.get("clear_bytes", 0.0)),
        round(held),
        alarm is not None,
        1.0 if alarm is not None else 0.0,
        "" if alarm is None else alarm.labels.get("who", ""),
        tuple(stopped.rows()),
        queues,
        accounts,
        round(ended_bytes),
        coming.growth_bytes_per_s,
        base_bytes=round(min(numbers.get(BASE, used - held), max(0.0, used - held))),
        alarm_in_s=coming.alarm_in_s,
        stops_at=coming.stops_at,
        suggestions=() if alarm is None else _suggestions(queues, windows),
    )


def _suggestions(
    queues: tuple[Holding, ...], windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    found = about_alarm(ALARM, "", windows)
    if not queues:
        return found
    most = queues[0].name.partition(":")[2]
    return (*found[:1], f"see who keeps up with it: penstock why queue {most}", *found[1:])


def render_memory(answer: MemoryExplanation) -> str:
    """The whole answer as lines of text."""
    lines = [answer.text]
    if answer.is_held:
        lines.append(f" effect            {answer.who}; consumers continue")
        if answer.clear_bytes > 0:
            lines.append(f" it ends           below {size(answer.clear_bytes)}")
    if answer.stopped:
        parts = ", ".join(f"{called(one.name)} {percent(one.share)}" for one in answer.stopped)
        lines.append(f" stopped           {parts}")
    rest = max(0, answer.used_bytes - answer.held_bytes - answer.base_bytes)
    lines.append(
        f" messages hold     {size(answer.held_bytes)}; the broker itself "
        f"{size(answer.base_bytes)}; {size(rest)} is kept free after use, and buffers"
    )
    lines += _rows("in queues", answer.queues)
    lines += _rows("published by", answer.accounts)
    if answer.ended_bytes > 0:
        lines.append(f" published by      connections that have ended: {size(answer.ended_bytes)}")
    growth = answer.growth_bytes_per_s
    if abs(growth) >= 1000:
        word = "grows" if growth > 0 else "shrinks"
        line = f" trend             what messages hold {word} by {size(abs(growth))}/s"
        if answer.alarm_in_s is not None and not answer.is_held:
            line += f": the alarm in about {duration(round(answer.alarm_in_s * 1e9))} at this rate"
        elif answer.stops_at and not answer.is_held:
            line += f", {ENDS[answer.stops_at]}: no alarm at this rate"
        lines.append(line)
    lines += [f" try       {one}" for one in answer.suggestions]
    return "\n".join(lines)


def _rows(title: str, holdings: tuple[Holding, ...]) -> list[str]:
    return [
        f" {title:<17} {called(one.name)} {size(one.bytes)} ({percent(one.share)})"
        for one in holdings
    ]


def _largest(actors: list[ActorWindow]) -> Generator[float, None, tuple[Holding, ...]]:
    """Those that hold most, in steps."""
    total = 0.0
    most: Least[tuple[str, float]] = Least(SHOWN)
    for window in paced(actors):
        if window is None:
            yield 0.0
            continue
        numbers = window.numbers
        # Records of before have no part of what queues share.
        held = numbers.get("memory_bytes", 0.0)
        if window.kind == "queue":
            held = numbers.get("memory_bytes", numbers.get("bytes", 0.0))
        total += held
        most.offer((-held, window.actor), (window.actor, held))
    return tuple(Holding(name, round(held), held / total) for name, held in most.rows() if held > 0)


@dataclass(frozen=True, slots=True)
class Question:
    """kind: one of WHY_KINDS; name: see explain; window_s: seconds looked at, above 0 and at most
    WINDOW_S_MAX; ago_s: the window ends so long before the newest round, 0.. ."""

    kind: str = "publish"
    name: str = ""
    window_s: float = 10.0
    ago_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """explanation: plain data for JSON, see docs/why.md; text: for people; exit_status: 0 fine,
    2 no such actor, 3 throttled."""

    explanation: dict[str, object]
    text: str
    exit_status: int


def ask_why(history: FlightHistory, question: Question) -> WhyAnswer:
    """Raises: OperatorError on a kind, a window or a moment that there is not."""
    return whole(answering(history, question))


def answering(history: FlightHistory, question: Question) -> Generator[float, None, WhyAnswer]:
    """The same in steps."""
    kind = question.kind
    if kind not in WHY_KINDS:
        raise OperatorError(f"unknown kind '{kind}'; one of: {', '.join(WHY_KINDS)}")
    if question.name and kind in UNNAMED:
        raise OperatorError(
            f"why {kind} is about the whole broker and takes no name, not "
            f"'{question.name}'; of one object ask why {', '.join(KINDS)} and its name"
        )
    if not 0 < question.window_s <= WINDOW_S_MAX:
        raise OperatorError(
            f"window of {question.window_s:g} s: must be above 0 and at most {WINDOW_S_MAX:g}"
        )
    look = yield from history.looking(question.window_s, until_ns(history, question.ago_s))
    node = look.windows.get(NODE)
    if node is not None and node.labels.get(ACCOUNTING) == "off":
        raise OperatorError(
            "time accounting is switched off on this broker (time_accounting = false), so nothing "
            "is known of who waits for whom; switch it on and restart"
        )
    yield from extending(look.windows)
    named = yield from naming(look.windows)
    windows = yield from indexing(named)
    # A broker that has just started cannot speak of ten seconds.
    span_s = round(look.span_s, 1) or question.window_s
    tables = [look.windows, named]
    if kind == "memory":
        start_ns = look.end_ns - round(look.span_s * NS_PER_S)
        before = yield from history.looking(1.0, start_ns)
        tables.append(before.windows)
        about = yield from explaining_memory(windows, before.windows, look.span_s)
        yield 0.0
        answer = WhyAnswer(asdict(about), plain(render_memory(about)), about.exit_status())
    else:
        yield from comparing(windows)
        window_s = min(span_s, question.window_s)
        found = yield from explaining(kind, question.name, windows, look.end_ns, window_s)
        yield 0.0
        plain_data = asdict(found)
        plain_data["start_ns"] = look.end_ns - round(look.span_s * NS_PER_S)
        plain_data["end_ns"] = look.end_ns
        plain_data["waits"] = [wait.plain() for wait in found.waits]
        answer = WhyAnswer(plain_data, render(found), found.exit_status())
    yield from windows.emptying()
    yield from emptying(tables)
    return answer


def until_ns(history: FlightHistory, ago_s: float) -> int | None:
    """Where a window ends that ends `ago_s` before the newest round, None for that round. Raises:
    OperatorError for a moment that the history does not have."""
    if ago_s == 0:
        return None
    newest_ns, oldest_ns = history.newest_ns(), history.oldest_ns()
    if newest_ns is None or oldest_ns is None:
        return None
    end_ns = newest_ns - round(ago_s * NS_PER_S)
    if ago_s < 0 or end_ns < oldest_ns:
        reach_s = (newest_ns - oldest_ns) / NS_PER_S
        raise OperatorError(f"{ago_s:g} s ago is not known; the history reaches {reach_s:g} s back")
    return end_ns
