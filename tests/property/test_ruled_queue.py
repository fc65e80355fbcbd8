"""A queue with rules against its naive twin: order, lifetimes, limits, priorities, last value,
delivery limit, dead letters, accounts."""

import os

from hypothesis import HealthCheck, settings

from tests.property.ruled_queue import RuledQueue

EXAMPLES = int(os.environ.get("PENSTOCK_QUEUE_EXAMPLES", "60"))
STEPS = int(os.environ.get("PENSTOCK_QUEUE_STEPS", "30"))

TestRuledQueue = RuledQueue.TestCase
TestRuledQueue.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
