"""The machine of queue_twin notices every bug of a planted list."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from tests.property.planted_queue_bugs import planted
from tests.property.queue_twin import QueueMachine

# A search ends with what it finds. So many, because the bug that is hardest to find takes hundreds
# of examples, sometimes more than a thousand, and what is drawn changes with the machine's rules,
# even with the modules that are loaded: Hypothesis draws from their constants.
SEARCH = settings(
    max_examples=20_000,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_the_list_is_long_enough() -> None:
    assert len(planted()) >= 15


@pytest.mark.parametrize(("kind", "rules"), planted(), ids=[kind.__name__ for kind, _ in planted()])
def test_it_is_found(kind: type[ExpiryAndLimits], rules: dict[str, object]) -> None:
    machine = type("Planted", (QueueMachine,), {"kind": kind, "fixed": rules, "prefetch": 2})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=SEARCH)
