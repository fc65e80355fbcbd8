"""A saved record answers exactly what the running broker would have answered at that instant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.explain.asking import Question, ask_why
from penstock.explain.kinds import WHY_KINDS
from penstock.telemetry.accounting import BlockLedger
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import Encoder, RecordHeader, decode_record
from penstock.telemetry.snapshots import ActorSnapshot, Times

S = 1_000_000_000
ACTORS = (
    "conn:1", "chan:1/1", "conn:2", "queue:/q", "consumers:/q", "consumer:c@conn:2", "alarm:memory",
    "node",
)  # fmt: skip
REASONS = ("credit", "depth", "alarm", "debt", "rate", "socket", "flow")
NUMBERS = ("published", "acked", "ready", "bytes", "unacked", "prefetch_full_share", "consumers",
           "memory_bytes", "used_bytes", "limit_bytes", "held_ns", "debt:conn:1", "sent:conn:2",
           "credit_now:queue:/q", "credit_initial:queue:/q")  # fmt: skip
ROUND = st.fixed_dictionaries(
    {
        "gone": st.sets(st.sampled_from(ACTORS), max_size=2),
        "holds": st.lists(
            st.tuples(
                st.sampled_from(ACTORS),
                st.sampled_from(ACTORS),
                st.sampled_from(REASONS),
                st.booleans(),
            ),
            max_size=4,
        ),
        "numbers": st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 500), max_size=4),
        "pause_ns": st.integers(S // 10, 2 * S),
    }
)
QUESTIONS = st.builds(
    Question,
    st.sampled_from(WHY_KINDS),
    st.sampled_from(["web", "1", "web/1", "1/1", "q", "c", "c@2", "nobody", "/"]),
    st.floats(0.5, 100.0),
    st.floats(0.0, 20.0),
)


def fly(rounds: list[dict[str, object]]) -> tuple[FlightHistory, int]:
    """The history of these rounds and the time at its end."""
    history = FlightHistory()
    ledgers = {actor: BlockLedger(0) for actor in ACTORS}
    total: dict[str, float] = {}
    now_ns = 0
    for one in rounds:
        now_ns += int(str(one["pause_ns"]))
        for actor, peer, reason, is_closed in one["holds"]:  # type: ignore[attr-defined]
            change = ledgers[actor].close if is_closed else ledgers[actor].open
            change(peer, reason, now_ns)
        for name, value in one["numbers"].items():  # type: ignore[attr-defined]
            total[name] = total.get(name, 0.0) + value
        snapshots = {}
        for actor in ACTORS:
            if actor in one["gone"]:  # type: ignore[operator]
                continue
            blocked = ledgers[actor].snapshot(now_ns)
            snapshots[actor] = ActorSnapshot(
                actor,
                actor.partition(":")[0].replace("consumers", "consumer"),
                times=Times(now_ns - blocked.blocked_ns, 0, blocked.blocked_ns),
                blocked=blocked,
                numbers=dict(total),
                labels={"name": "web"} if actor == "conn:1" else {"queue": "queue:/q"},
            )
        history.push(now_ns, snapshots)
    return history, now_ns


def said(history: FlightHistory, question: Question) -> object:
    try:
        answer = ask_why(history, question)
    except OperatorError as error:
        return str(error)
    return answer.explanation, answer.text, answer.exit_status


@settings(max_examples=60, deadline=None)
@given(st.lists(ROUND, min_size=1, max_size=25), st.lists(QUESTIONS, min_size=1, max_size=8))
def test_the_answer_from_the_file_is_the_answer_of_the_broker(
    rounds: list[dict[str, object]], questions: list[Question]
) -> None:
    history, now_ns = fly(rounds)
    header = RecordHeader("vm", "b", 0, now_ns, "0", "penstock", "", 600.0)
    encoder = Encoder(header, history.copy(), [])
    read = decode_record(b"".join(encoder.pieces()).splitlines())
    for question in questions:
        assert said(read.history, question) == said(history, question), question
