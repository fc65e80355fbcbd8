"""Scenarios 49 and 50 of flow-semantics 19.B: how much the windows of many publishers let in
while their queue takes nothing.

Numbers scale: there are thirty publishers, windows are a tenth of the profiles', large bodies a
sixteenth of a mebibyte.
"""

import pytest

from penstock.broker.settings.ledger import USER, DebtMark, Marks
from penstock.flow.profile import PENSTOCK, RABBITMQ_4, RABBITMQ_35, Profile
from tests.spec.stage import Hand, Stage

KIB = 1024
PUBLISHERS = 30
LARGE_BYTES = 64 * KIB
FEW = 8
"""Publishers of large bodies."""


def crowd(profile: Profile, publishers: int, body_bytes: int, each: int, budget: int = 0) -> Stage:
    """So many publishers have said so much to a queue that is parked."""
    stage = Stage(profile)
    stage.park(stage.queue("q1").identity)
    if budget:
        stage.broker.ledger.set_marks(USER, "guest@/", Marks(bytes_=DebtMark(budget, budget // 2)))
    hands: list[Hand] = [stage.connect()[0] for _ in range(publishers)]
    for hand in hands:
        hand.publish_bodies("q1", [b"z" * body_bytes] * each)
    stage.settle()
    return stage


def held(stage: Stage) -> tuple[int, int]:
    """(messages, bytes) that the broker has taken in."""
    accounts = [connection.account for connection in stage.broker.connections.values()]
    messages = sum(int(account.debt_messages) for account in accounts)
    return messages, sum(int(account.debt_bytes) for account in accounts)


def test_scenario_49_r_bigger_windows_more_ram() -> None:
    """At most two windows and the message between them for each publisher, whatever they hold; how
    much of the second one is used depends on who has its turn when."""
    found = []
    for profile, window, more in ((RABBITMQ_35, 20, 5), (RABBITMQ_4, 40, 20)):
        stage = crowd(profile.with_messages(window, more), PUBLISHERS, KIB, 100)
        messages, _ = held(stage)
        assert PUBLISHERS * window <= messages <= PUBLISHERS * (2 * window + 1)
        found.append(messages)
    assert found[1] > 1.3 * found[0]


@pytest.mark.parametrize("body_bytes", [KIB, 64])
def test_scenario_49_n_bytes_are_the_bound(body_bytes: int) -> None:
    """Many small messages or fewer large ones: what is held is the budget, and a message for each
    connection."""
    budget = 64 * KIB
    stage = crowd(PENSTOCK, PUBLISHERS, body_bytes, 6 * KIB // body_bytes, budget)
    messages, bytes_ = held(stage)
    size = bytes_ // messages
    assert 0.9 * budget < bytes_ <= budget + PUBLISHERS * size


@pytest.mark.parametrize("profile", [RABBITMQ_35, RABBITMQ_4], ids=["3.5", "4"])
def test_scenario_50_r_large_bodies(profile: Profile) -> None:
    """Windows count messages, so they let in as many of any size."""
    stage = crowd(profile.with_messages(20, 10), FEW, LARGE_BYTES, 50)
    messages, bytes_ = held(stage)
    assert FEW * 20 <= messages <= FEW * 41
    assert bytes_ >= messages * LARGE_BYTES


def test_scenario_50_n_large_bodies() -> None:
    budget = 4 * LARGE_BYTES
    stage = crowd(PENSTOCK, FEW, LARGE_BYTES, 50, budget)
    messages, bytes_ = held(stage)
    assert 4 <= messages <= 4 + FEW
    assert bytes_ <= budget + FEW * (LARGE_BYTES + KIB)
