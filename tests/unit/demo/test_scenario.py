"""The plan: what is written is what the workers read, and time falls into the right phase."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.demo.scenario import BURST, SLOW, STEADY, DemoPlan, phases
from penstock.demo.workers.part import BLOCK_LINES, PhaseRates, Trace, Worker
from tests.spark.oracle_input import read_traces

SECOND_NS = 1_000_000_000


def plan(scale: float = 1.0) -> DemoPlan:
    return DemoPlan("amqp://h", "/d", 7, phases(scale))


def test_a_plan_reads_back_as_it_was(tmp_path: Path) -> None:
    plan().write(tmp_path / "plan.json")
    assert DemoPlan.read(tmp_path / "plan.json") == plan()


def test_the_scale_stretches_every_phase() -> None:
    assert plan(0.5).seconds() * 2 == plan().seconds()


def test_each_moment_has_its_phase() -> None:
    part = Worker(plan(), "p", start_ns=SECOND_NS)
    names = []
    for second in (0.5, 1.0, 10.9, 11.0, 18.9, 19.0, 28.9, 29.0):
        phase = part.phase_at(int(second * SECOND_NS))
        names.append(phase.name if phase else None)
    assert names == [None, STEADY, STEADY, BURST, BURST, SLOW, SLOW, None]
    assert not part.is_over(int(28.9 * SECOND_NS))
    assert part.is_over(29 * SECOND_NS)


def test_only_go_starts_a_worker() -> None:
    part = Worker(plan(), "p")
    assert not part.take_line("")
    assert not part.take_line("stop\n")
    assert part.take_line("go 42\n")
    assert part.start_ns == 42


@given(st.floats(1.0, 5000.0), st.lists(st.integers(1, 200_000_000), min_size=1, max_size=50))
def test_pace_never_exceeds_the_rate_and_owes_little(rate: float, steps_ns: list[int]) -> None:
    pace = PhaseRates()
    now_ns = SECOND_NS
    pace.due(now_ns, rate)
    taken = 0
    for step_ns in steps_ns:
        now_ns += step_ns
        due = pace.due(now_ns, rate)
        assert due <= max(1.0, rate * 0.1)
        pace.took(due)
        taken += due
    assert taken <= rate * (now_ns - SECOND_NS) / 1e9 + 1e-6


def test_every_note_is_read_back(tmp_path: Path) -> None:
    with Trace(str(tmp_path), "me") as trace:
        for number in range(BLOCK_LINES + 3):
            trace.note(f"m-{number}", "published", "orders", "slow consumer")
    log = read_traces(tmp_path)
    assert log.unreadable_count == 0
    assert [line.message_id for line in log.lines] == [f"m-{n}" for n in range(BLOCK_LINES + 3)]
    assert log.lines[0][3:6] == ("me", "orders", "slow consumer")
    assert log.lines[0].t_ns <= log.lines[-1].t_ns
