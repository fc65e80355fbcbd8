"""`why`, of all workers: the one that knows who is asked about, or where something is held longest.

What one waits for is always in its own virtual host, so one worker's explanation is a whole one.
Memory is different: all of them have it together, and each says what it holds of it.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.explain.asking import (
    SHOWN,
    Holding,
    MemoryExplanation,
    render_memory,
)
from penstock.explain.explanation import UNKNOWN, ActorShare, Explanation
from penstock.explain.naming import Close, nobody_of_all, several_of_all
from penstock.explain.render import plain, render
from penstock.server.workers.gather_sums import said, some, soonest
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way, with_missing
from penstock.telemetry.words import size

UNKNOWN_STATUS: Final = 2
MEMORY: Final = "memory"
CONSUMER: Final = "consumer"
UNNAMED: Final = ("publish", "not")


class Why(Way):
    """An answer has the explanation, a text, and the exit status of a command."""

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        asked = [fields] * everybody.count
        answers, missing = await everybody.there(asked, everybody.workers.ask)
        if everybody.count == 1:
            return answers[0]
        kind = str(fields.get("kind", "publish"))
        if kind == MEMORY:
            return with_missing(_memory(answers), missing)
        if kind in UNNAMED:
            return with_missing(_publishers(answers), missing)
        known = {
            worker: one for worker, one in answers.items() if one["exit_status"] != UNKNOWN_STATUS
        }
        name = str(fields.get("name", ""))
        nobody = [_close(one) for worker, one in answers.items() if worker not in known]
        if kind == CONSUMER:
            subjects = [str(one["explanation"]["subject"]) for one in known.values()]
            several = several_of_all(name, nobody, subjects)
            if several is not None:
                return with_missing(_unknown(answers, several), missing)
        if not known:
            return with_missing(_unknown(answers, nobody_of_all(kind, name, nobody)), missing)
        worker = _worst(known)
        told = {**known[worker]["explanation"], "worker": worker}
        return {**known[worker], "explanation": told}


def _close(answer: Row) -> Close:
    told = answer["explanation"]
    return str(told["text"]), tuple(told["close_names"])


def _unknown(answers: dict[int, Row], close: Close) -> Row:
    """As of one broker that has the actors of all."""
    text, names = close
    window_s = max(one["explanation"]["window_s"] for one in answers.values())
    told = Explanation("", "", UNKNOWN, window_s, text, close_names=names)
    return {
        "explanation": msgspec.to_builtins(told),
        "text": render(told),
        "exit_status": told.exit_status(),
    }


def _trouble(answer: Row) -> tuple[bool, int, bool, float, int]:
    """How much an explanation has to say: of who was held, then of who waits for others, then of
    those who publish."""
    told = answer["explanation"]
    return (
        answer["exit_status"] != 0,
        told["blocked_ns"],
        told["behind"] is not None,
        max((wait["share"] for wait in told["waits"]), default=0.0),
        told["unaffected"],
    )


def _worst(answers: dict[int, Row]) -> int:
    """The worker where there is most to tell, the first of several alike."""
    return max(answers, key=lambda worker: (_trouble(answers[worker]), -worker))


def _publishers(answers: dict[int, Row]) -> Row:
    """Of the worst publisher of all; `unaffected` counts the publishers of every worker."""
    worker = _worst(answers)
    found = answers[worker]
    told = found["explanation"]
    others = sum(one["explanation"]["unaffected"] for one in answers.values())
    if told["subject"] == "":
        # Nobody publishes, at none of them.
        return found
    told = {**told, "unaffected": others, "worker": worker}
    first, mark, rest = str(found["text"]).partition("\n")
    return {**found, "explanation": told, "text": f"{first} (worker {worker}){mark}{rest}"}


def _memory(answers: dict[int, Row]) -> Row:
    told = [one["explanation"] for one in answers.values()]
    whole = _added([msgspec.convert(one, MemoryExplanation) for one in told])
    lines = [plain(render_memory(whole))]
    for worker, one in answers.items():
        held = one["explanation"]["held_bytes"]
        lines.append(f" worker {worker}          messages hold {size(held)}")
    explanation: dict[str, Any] = msgspec.to_builtins(whole)
    workers = [{"worker": worker, **one["explanation"]} for worker, one in answers.items()]
    return {
        "explanation": {**explanation, "workers": workers},
        "text": "\n".join(lines),
        "exit_status": whole.exit_status(),
    }


def _added(found: Sequence[MemoryExplanation]) -> MemoryExplanation:
    """used_bytes and the marks are of all workers in each of them; what they hold is their own."""
    most = max(found, key=lambda one: (one.is_held, one.held_bytes))
    stopped = sorted(
        (one for each in found for one in each.stopped), key=lambda one: (-one.share, one.name)
    )
    used = max(one.used_bytes for one in found)
    held = sum(one.held_bytes for one in found)
    base = min(sum(one.base_bytes for one in found), max(0, used - held))
    limit = max(one.limit_bytes for one in found)
    is_held = some([one.is_held for one in found])
    return MemoryExplanation(
        state=most.state,
        text=most.text,
        used_bytes=used,
        limit_bytes=limit,
        clear_bytes=max(one.clear_bytes for one in found),
        held_bytes=held,
        is_held=is_held,
        blocked_share=max(one.blocked_share for one in found),
        who=said([one.who for one in found]),
        stopped=tuple(ActorShare(one.name, one.share) for one in stopped[:SHOWN]),
        queues=_largest([one.queues for one in found]),
        accounts=_largest([one.accounts for one in found]),
        ended_bytes=sum(one.ended_bytes for one in found),
        growth_bytes_per_s=sum(one.growth_bytes_per_s for one in found),
        suggestions=most.suggestions,
        base_bytes=base,
        alarm_in_s=soonest([one.alarm_in_s for one in found]),
        stops_at=most.stops_at,
    )


def _largest(held: Sequence[Sequence[Holding]]) -> tuple[Holding, ...]:
    """Shares are of what all workers hold: each says its own with a row and its share."""
    total = sum(rows[0].bytes / rows[0].share for rows in held if rows and rows[0].share > 0)
    rows = sorted((one for each in held for one in each), key=lambda one: (-one.bytes, one.name))
    return tuple(
        Holding(one.name, one.bytes, one.bytes / total if total > 0 else 0.0)
        for one in rows[:SHOWN]
    )
