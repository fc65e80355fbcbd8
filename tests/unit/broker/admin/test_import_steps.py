"""An import goes in small steps, however much there is in the file."""

import sys
from types import FrameType
from typing import Final

import pytest

from penstock.broker.admin.definitions_import import importing
from penstock.broker.admin.definitions_rows import Row
from tests.unit.broker.peer import Bed

HASHED: Final = "A" * 48
"""As good as that of any password."""


def calls_in_a_step(definitions: Row) -> int:
    """Of the longest step of an import."""
    bed = Bed()
    steps = importing(bed.broker, definitions)
    calls, most = 0, 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    while True:
        calls = 0
        sys.setprofile(count)
        try:
            next(steps)
        except StopIteration:
            return max(calls, most)
        finally:
            sys.setprofile(None)
        most = max(calls, most)


@pytest.mark.parametrize("key", ["users", "queues", "bindings"])
def test_no_step_does_more_when_there_is_more(key: str) -> None:
    def rows(count: int) -> Row:
        made = {
            "users": [{"name": f"u{n}", "password_hash": HASHED} for n in range(count)],
            "queues": [{"name": f"q{n}", "vhost": "/"} for n in range(count)],
            "bindings": [
                {"source": "e", "destination": "q", "vhost": "/", "routing_key": f"k{n}"}
                for n in range(count)
            ],
        }
        return {
            "exchanges": [{"name": "e", "vhost": "/", "type": "direct"}],
            "queues": [{"name": "q", "vhost": "/"}],
            key: made[key],
        }

    assert calls_in_a_step(rows(400)) <= calls_in_a_step(rows(20)) + 10
