"""Rights (F103) and rights on topics: RabbitMQ's answers to every operation with and without.

Against RabbitMQ, give it the users first:
python -m tests.conformance.cases_permissions > users.json
rabbitmqctl import_definitions users.json
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.conformance.cases import DELIBERATE, check
from tests.conformance.cases_permissions import CASES, PASSWORD, SETUP, Case, definitions
from tests.conformance.live import Broker
from tests.conformance.peer import OK, outcome


@pytest.fixture(scope="module")
def guarded(broker: Broker) -> Iterator[Broker]:
    """The broker, with the users of all cases and what they try to reach."""
    if broker.pid:
        broker.asked("definitions", do="import", definitions=definitions())
    assert outcome(broker, SETUP) == OK
    yield broker


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operation_and_right(guarded: Broker, case: Case) -> None:
    expected = case.expected
    if guarded.pid and case.id in DELIBERATE:
        expected, _reason = DELIBERATE[case.id]
    user = replace(guarded, user=case.id, password=PASSWORD)
    check(outcome(user, case.steps), expected, "")
