"""How an entry of the list of switched-off tests names tests."""

from __future__ import annotations


def matches(nodeid: str, pattern: str) -> bool:
    """Is `nodeid` the test, or one of those that a trailing `*` of the pattern stands for?"""
    if pattern.endswith("*"):
        return nodeid.startswith(pattern[:-1])
    return nodeid == pattern
