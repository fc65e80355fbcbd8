"""Which workloads and profiles the fluid model can express."""

from penstock.flow.profile import profile_named
from penstock.lab.workload import Workload


def can_be_fluid(workload: Workload, profile: str) -> bool:
    """One queue for each publisher, nothing forwarded, nothing that happens in between, no memory
    mark; windows that do not move. Raises: OperatorError for an unknown profile."""
    rules = profile_named(profile)
    return (
        rules.strategy_name in ("credit", "none")
        and not workload.events
        and not workload.memory_high_bytes
        and all(not one.forward_to for one in workload.consumers)
        and all(
            len(one.targets) == 1 and not one.targets[0].exchange for one in workload.publishers
        )
    )
