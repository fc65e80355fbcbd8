"""The bounds of policies; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

POLICIES_PER_VHOST: Final = Limit(
    "policies_per_vhost",
    "policies, and as many operator policies",
    1000,
    0,
    100_000,
    "broker/policy/policies",
    "the policy is refused",
)
PATTERN_BYTES: Final = Limit(
    "pattern_bytes",
    "bytes of one pattern",
    1024,
    1,
    65_536,
    "broker/policy/patterns",
    "the pattern is refused",
)
PATTERN_MEMORY_BYTES: Final = Limit(
    "pattern_memory_bytes",
    "bytes that one pattern may take",
    1_048_576,
    65_536,
    67_108_864,
    "broker/policy/patterns",
    "the pattern is refused, or matched more slowly",
)
POLICY_SWEEP_MATCHES: Final = Limit(
    "policy_sweep_matches",
    "patterns matched in one slice of applying a changed policy",
    512,
    1,
    1_000_000,
    "broker/policy/policy_sweep",
    "the rest follows in later slices, others' turns between them",
)
