"""How long clients wait for answers, as numbers of snapshots; see telemetry/answer_times."""

from penstock.explain.answers import CONFIRMS, RETURN
from penstock.protocol.methods.codec import METHODS
from penstock.telemetry.actor_window import WAIT_MOST, WAITED
from penstock.telemetry.answer_times import (
    BASIC_ACK,
    BASIC_RETURN,
    STAGE_NAMES,
    AnswerTimes,
)


def answer_loads(times: AnswerTimes, now_ns: int, numbers: dict[str, float]) -> None:
    """Add the waits of a connection or channel to its `numbers`."""
    for one in times.totals(now_ns):
        answer = answer_name(one.kind)
        prefix = f"{WAITED}{answer}:"
        numbers[prefix + "ns"] = float(one.ns)
        numbers[prefix + "count"] = float(one.count)
        numbers[prefix + "flying"] = float(one.flying)
        numbers[WAIT_MOST + answer] = float(one.most)
        for name, ns in zip(STAGE_NAMES, one.stages, strict=True):
            if ns > 0:
                numbers[prefix + name] = float(ns)


def answer_name(kind: int) -> str:
    """What is waited for. kind: see AnswerTimes.answered."""
    if kind == BASIC_ACK:
        return CONFIRMS
    if kind == BASIC_RETURN:
        return RETURN
    method = METHODS.get((kind >> 16, kind & 0xFFFF))
    return "an answer" if method is None else f"{method.NAME}-ok"
