"""Every case of the tables: the reply code and text that RabbitMQ gives, and no other.

`DELIBERATE` lists the few answers in which Penstock, started by this run, differs on purpose.
"""

import pytest

from tests.conformance import (
    cases_exchanges,
    cases_messages,
    cases_permissions,
    cases_protocol,
    cases_queues,
)
from tests.conformance.cases import DELIBERATE, Case, check
from tests.conformance.live import Broker
from tests.conformance.peer import outcome

TABLES = (
    *cases_queues.CASES,
    *cases_exchanges.CASES,
    *cases_messages.CASES,
    *cases_protocol.CASES,
)


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.id)
def test_reply_code_and_text(broker: Broker, name: str, case: Case) -> None:
    owner = case.owner(name) if case.owner else ()
    expected = case.expected
    if broker.pid and case.id in DELIBERATE:
        expected, _reason = DELIBERATE[case.id]
    got = outcome(broker, case.steps(name), owner)
    check(got, expected, name)
    assert case.method is None or got.method == case.method


def test_no_case_is_listed_twice() -> None:
    ids = [case.id for case in TABLES] + [case.id for case in cases_permissions.CASES]
    assert len(set(ids)) == len(ids)
    assert set(DELIBERATE) <= set(ids)
