"""A queue with rules against its naive twin: order, lifetimes, limits, priorities, last value,
delivery limit, dead letters, accounts; in memory, and with most of it on a disk."""

import os

from hypothesis import HealthCheck, settings

from tests.property.paged_ruled_queue import (
    PagedLastPriorities,
    PagedLastValues,
    PagedPriorityLimits,
    PagedPriorityQueue,
    PagedRuledQueue,
)
from tests.property.ruled_queue import RuledQueue

EXAMPLES = int(os.environ.get("PENSTOCK_QUEUE_EXAMPLES", "60"))
STEPS = int(os.environ.get("PENSTOCK_QUEUE_STEPS", "30"))
SEARCH = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

TestRuledQueue = RuledQueue.TestCase
TestRuledQueue.settings = SEARCH

TestPagedRuledQueue = PagedRuledQueue.TestCase
TestPagedRuledQueue.settings = SEARCH

TestPagedLastValues = PagedLastValues.TestCase
TestPagedLastValues.settings = SEARCH

TestPagedLastPriorities = PagedLastPriorities.TestCase
TestPagedLastPriorities.settings = SEARCH

TestPagedPriorityQueue = PagedPriorityQueue.TestCase
TestPagedPriorityQueue.settings = SEARCH

TestPagedPriorityLimits = PagedPriorityLimits.TestCase
TestPagedPriorityLimits.settings = SEARCH
