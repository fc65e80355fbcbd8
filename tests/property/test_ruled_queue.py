"""A queue with rules against its naive twin: order, lifetimes, limits, priorities, last values,
keys, delivery limit, dead letters, accounts; in memory, and with most of it on a disk."""

import os

from hypothesis import HealthCheck, settings

from tests.property.paged_ruled_queue import (
    PagedDeduplicated,
    PagedDeduplicatedPriorities,
    PagedDeduplicatedValues,
    PagedLastPriorities,
    PagedLastValues,
    PagedPriorityLimits,
    PagedPriorityQueue,
    PagedQueueMachine,
)
from tests.property.ruled_queue import QueueMachine

EXAMPLES = int(os.environ.get("PENSTOCK_QUEUE_EXAMPLES", "60"))
STEPS = int(os.environ.get("PENSTOCK_QUEUE_STEPS", "30"))
SEARCH = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class DeduplicatedQueue(QueueMachine):
    """No two of the same key, in memory."""

    is_deduplicated = True


TestRuledQueue = QueueMachine.TestCase
TestDeduplicatedQueue = DeduplicatedQueue.TestCase
TestPagedQueueMachine = PagedQueueMachine.TestCase
TestPagedLastValues = PagedLastValues.TestCase
TestPagedLastPriorities = PagedLastPriorities.TestCase
TestPagedPriorityQueue = PagedPriorityQueue.TestCase
TestPagedPriorityLimits = PagedPriorityLimits.TestCase
TestPagedDeduplicated = PagedDeduplicated.TestCase
TestPagedDeduplicatedPriorities = PagedDeduplicatedPriorities.TestCase
TestPagedDeduplicatedValues = PagedDeduplicatedValues.TestCase

for case in (
    TestRuledQueue,
    TestDeduplicatedQueue,
    TestPagedQueueMachine,
    TestPagedLastValues,
    TestPagedLastPriorities,
    TestPagedPriorityQueue,
    TestPagedPriorityLimits,
    TestPagedDeduplicated,
    TestPagedDeduplicatedPriorities,
    TestPagedDeduplicatedValues,
):
    case.settings = SEARCH
