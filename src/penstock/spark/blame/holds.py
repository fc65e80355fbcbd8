"""Events to holds: who was held by whom, when, with arrays.

A hold starts at `gate_closed` and ends at the first of `gate_opened` of the same (actor, peer,
reason), `actor_down` of either side, or the end of the data. A `gate_opened` whose `gate_closed`
was lost still tells the hold, because its amount is the time the gate was closed. Sorted by triple
and place in the order of events, what repeats the row before it is left out; the rest alternates,
so the next row is the end.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.spark.input.event_slice import DOWN, Slice, by_group
from penstock.spark.schema.arrow_columns import (
    BLOCK_INTERVAL,
    I64,
    TRIPLE,
    Mask,
    compact,
    spread,
    text,
    together,
)

_CLOSED, _OPENED, _DOWN, _NEVER = range(4)
_ENDS: Final = ("gate_closed", "gate_opened", "actor_down", "end_of_data")


class _Changes(NamedTuple):
    """What closes and ends holds. row: where the triple stands; place: in the order of events."""

    row: I64
    place: I64
    t_ns: I64
    kind: I64
    amount: I64


def block_interval(found: Slice) -> pa.Table:
    """Who was held by whom, when: see `rows.BlockInterval`."""
    changes = _changes(found)
    triple = compact(together(*(found.codes[name][changes.row] for name in ("boot_id", *TRIPLE))))
    order, is_first, _ = by_group(triple, changes.place)
    row, _, t_ns, kind, amount = (column[order] for column in changes)
    triple = triple[order]
    is_close = kind == _CLOSED
    is_after_close = np.zeros(len(row), np.bool_)
    is_after_close[1:] = is_close[:-1] & ~is_first[1:]
    # A row that repeats the state of the row before it says nothing new; an open whose close was
    # lost still tells its interval by its amount.
    is_lone = (kind == _OPENED) & ~is_after_close
    is_said = is_first | (is_close != is_after_close) | (kind == _OPENED)
    start_ns = np.where(is_close, t_ns, t_ns - np.maximum(amount, 0))
    if np.any(is_lone):
        is_end = (kind == _OPENED) | is_after_close & ~is_close
        start_ns = np.where(is_lone, np.maximum(start_ns, _ended(triple, t_ns, is_end)), start_ns)
    row, t_ns, kind, triple, start_ns = (
        column[is_said] for column in (row, t_ns, kind, triple, start_ns)
    )
    is_close, is_lone = is_close[is_said], is_lone[is_said]
    has_next = np.zeros(len(row), np.bool_)
    has_next[:-1] = triple[1:] == triple[:-1]
    after_ns, after_kind = np.roll(t_ns, -1), np.roll(kind, -1)
    last_ns = found.last_ns[found.codes["boot_id"][row]]
    end_ns = np.where(is_close, np.where(has_next, after_ns, last_ns), t_ns)
    ending = np.where(is_close, np.where(has_next, after_kind, _NEVER), kind)
    # One that is still open is kept even if nothing has happened since: it has to be found again.
    is_kept = (is_close | is_lone) & ((end_ns > start_ns) | (ending == _NEVER))
    row = row[is_kept]
    return pa.table(
        [
            *(found.texts(name, row) for name in ("boot_id", *TRIPLE)),
            start_ns[is_kept],
            end_ns[is_kept],
            text(_ENDS, ending[is_kept]),
            found.texts("node", row),
            is_lone[is_kept],
        ],
        schema=BLOCK_INTERVAL,
    )


def _changes(found: Slice) -> _Changes:
    """Gate events of this share, holds that go on, and for each triple the ends of its actors. A
    hold that goes on and is known by its end alone is only the end of what was before it."""
    place = np.zeros(len(found.numbers["seq"]), np.int64)
    place[found.events] = np.arange(1, len(found.events) + 1)
    gates = found.of(found.mine, "gate_closed", "gate_opened")
    gate_kind = np.where(found.codes["kind"][gates] == found.kind("gate_opened"), _OPENED, _CLOSED)
    carried = found.of(found.carried, "gate_closed", "gate_opened")
    is_going_on = found.codes["kind"][carried] == found.kind("gate_closed")
    triples = np.concatenate([gates, carried])
    key = together(*(found.codes[name][triples] for name in ("boot_id", *TRIPLE)))
    triples = triples[np.unique(key, return_index=True)[1]]
    downs = found.of(found.events, DOWN)
    named, down = _ends_of(found, triples, downs)
    times, amounts = found.numbers["t_ns"], found.numbers["amount"]
    return _Changes(
        np.concatenate([gates, carried, named]),
        np.concatenate([place[gates], np.zeros(len(carried), np.int64), place[down]]),
        np.concatenate([times[gates], times[carried], times[down]]),
        np.concatenate(
            [gate_kind, np.where(is_going_on, _CLOSED, _OPENED), np.full(len(down), _DOWN)]
        ),
        np.concatenate([amounts[gates], np.zeros(len(carried) + len(down), np.int64)]),
    )


def _ends_of(found: Slice, triples: I64, downs: I64) -> tuple[I64, I64]:
    """(triple, actor_down of one of its two actors), every pair. Both may go in one event of each;
    the first of them ends the interval."""
    boot, actor, peer = (found.codes[name][triples] for name in ("boot_id", "actor", "peer"))
    other = np.flatnonzero(actor != peer)
    side = np.concatenate([boot * found.count + actor, (boot * found.count + peer)[other]])
    whose = np.concatenate([triples, triples[other]])
    order = np.argsort(side, kind="stable")
    side, whose = side[order], whose[order]
    gone = found.codes["boot_id"][downs] * found.count + found.codes["actor"][downs]
    first = np.searchsorted(side, gone, side="left")
    owner, at = spread(np.searchsorted(side, gone, side="right") - first)
    return whose[first[owner] + at], downs[owner]


def _ended(triple: I64, t_ns: I64, is_end: Mask) -> I64:
    """When the last hold of the same triple before each row ended, 0 for never."""
    moments, rank = np.unique(t_ns, return_inverse=True)
    width = len(moments) + 1
    reached = np.maximum.accumulate(triple * width + np.where(is_end, rank + 1, 0))
    before = np.concatenate([[-1], reached[:-1]]) - triple * width
    return np.where(before > 0, moments[np.maximum(before, 1) - 1], 0)
