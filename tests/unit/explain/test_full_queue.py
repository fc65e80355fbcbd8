"""A full queue's limit in the answer, only where fullness is what held."""

from penstock.explain.blame import Stay, Step
from penstock.explain.explain import with_limit
from tests.unit.explain.scene import actor, scene

QUEUE = actor("queue:/q", (0, 0, 0, 10_000), labels={"limit": "max-length 5 (policy 'short')"})


def stay(reason: str) -> Stay:
    step = Step("queue:/q", "consumers:/q", reason, 1_000)
    return Stay("consumers:/q", 1_000, (step,), False)


def test_the_limit_follows_what_is_wrong_with_its_consumers() -> None:
    windows = scene(QUEUE)
    said = "full at max-length 5 (policy 'short')"
    assert with_limit("no consumer", stay("full"), windows) == f"no consumer; {said}"
    assert with_limit("", stay("full"), windows) == said


def test_nothing_is_said_of_other_reasons_or_unknown_queues() -> None:
    windows = scene(QUEUE)
    assert with_limit("no consumer", stay("depth"), windows) == "no consumer"
    assert with_limit("no consumer", stay("full"), {}) == "no consumer"
    assert with_limit("x", stay("full"), scene(actor("queue:/q", (0, 0, 0, 1)))) == "x"
