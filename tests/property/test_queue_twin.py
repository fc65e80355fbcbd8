"""Queues of every kind against their naive twin: order, lifetimes, limits, priorities, last values,
keys, delivery limit, dead letters, accounts; in memory, and with most of it on a disk."""

import os
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.queues.rules import BACKPRESSURE
from tests.property.paged_queue_twin import PagedQueueMachine
from tests.property.queue_twin import QueueMachine

EXAMPLES = int(os.environ.get("PENSTOCK_QUEUE_EXAMPLES", "60"))
STEPS = int(os.environ.get("PENSTOCK_QUEUE_STEPS", "30"))
SEARCH = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def fixed(priorities: int, last_value: str) -> dict[str, object]:
    return {"fixed": MappingProxyType({"priorities": priorities, "last_value": last_value})}


UNIQUE: dict[str, object] = {"is_deduplicated": True}
"""No two of the same key."""
PRIORITIES = {**fixed(3, ""), "has_limits": False, "is_ordered": False}
"""Without limits: what is dropped at one is another if lower levels died while the highest was
read."""
HOLDS_NOBODY = tuple(one for one in range(4) if one != BACKPRESSURE)
"""Where order is by level or key, or keys decide what is taken: while the last messages are read, a
full queue that has given some takes from its mailbox, and what it takes then is given first, or is
the duplicate of one that is being read; the twin reads at once."""
PRIORITY_LIMITS = {**fixed(3, ""), "has_lifetimes": False, "overflows": HOLDS_NOBODY}
VALUES: dict[str, object] = {
    **fixed(0, "routing-key"),
    "is_padded": True,
    "is_ordered": False,
    "targets": (0, 700, 1600, 3000),
    "overflows": HOLDS_NOBODY,
}
"""One message a key; some are so small that they stay in memory."""
PRIORITY_VALUES = {**VALUES, **fixed(3, "routing-key"), "has_limits": False}

KINDS: dict[str, tuple[type[QueueMachine], dict[str, object]]] = {
    "memory": (QueueMachine, {}),
    "memory-unique": (QueueMachine, UNIQUE),
    "paged": (PagedQueueMachine, {}),
    "paged-unique": (PagedQueueMachine, {**UNIQUE, "overflows": HOLDS_NOBODY}),
    "paged-priorities": (PagedQueueMachine, PRIORITIES),
    "paged-priorities-unique": (PagedQueueMachine, {**PRIORITIES, **UNIQUE}),
    "paged-priorities-limits": (PagedQueueMachine, PRIORITY_LIMITS),
    "paged-values": (PagedQueueMachine, VALUES),
    "paged-values-priorities": (PagedQueueMachine, PRIORITY_VALUES),
    "paged-values-priorities-unique": (PagedQueueMachine, {**PRIORITY_VALUES, **UNIQUE}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_does_what_its_twin_does(kind: str) -> None:
    machine, parameters = KINDS[kind]
    run_state_machine_as_test(type("Kind", (machine,), parameters), settings=SEARCH)
