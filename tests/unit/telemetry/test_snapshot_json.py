"""Snapshots as JSON: nothing is lost on the way and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.record_file import snapshot_of, snapshot_plain
from penstock.telemetry.snapshots import ActorSnapshot, BlockedTotals, BlockTotals, Times

WHOLE = st.integers(-1, 2**62)
NUMBERS = st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False))
BLOCKS = st.builds(
    BlockTotals, st.text(), st.text(), WHOLE, WHOLE, WHOLE, WHOLE, st.none() | WHOLE, WHOLE
)
SNAPSHOTS = st.builds(
    ActorSnapshot,
    st.sampled_from(["conn:a", "queue:/q", "node"]),
    st.sampled_from(["conn", "queue", "alarm"]),
    st.text(max_size=5),
    WHOLE,
    st.builds(Times, WHOLE, WHOLE, WHOLE, WHOLE),
    st.builds(
        BlockedTotals,
        WHOLE,
        WHOLE,
        WHOLE,
        st.none() | WHOLE,
        st.lists(BLOCKS, max_size=3).map(tuple),
    ),
    NUMBERS,
    st.dictionaries(st.text(max_size=9), st.text(max_size=9)),
    WHOLE,
)


@given(SNAPSHOTS)
def test_there_and_back(snapshot: ActorSnapshot) -> None:
    plain = json.loads(json.dumps(snapshot_plain(snapshot)))
    assert snapshot_of(snapshot.actor, plain) == snapshot


def test_what_is_empty_takes_no_room() -> None:
    assert snapshot_plain(ActorSnapshot("conn:a", "conn")) == {}
    assert snapshot_of("conn:a", {}) == ActorSnapshot("conn:a", "conn")


@pytest.mark.parametrize(
    "plain",
    [{"times": [1, 2]}, {"times": 1}, {"times": [1, 2, 3, "4"]}, {"numbers": []},
     {"numbers": {"a": "b"}}, {"blocked": [1]}, {"blocked": [1, 2, 3, None, [[1]]]},
     {"started_ns": "x"}],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused(plain: dict[str, object]) -> None:
    if plain == {"times": [1, 2]}:
        assert snapshot_of("conn:a", plain).times == Times(1, 2)
        return
    with pytest.raises((TypeError, ValueError)):
        snapshot_of("conn:a", plain)
