"""Latencies of the fluid model: the horizontal distance between two cumulative curves.

The message that was the n-th to be written is confirmed when the curve of what was confirmed
reaches n, because nothing overtakes anything between one publisher and one queue. Its delivery is
where the queue's curve of what has gone reaches what the queue had taken when it took this one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.lab.model import INTERPRETED, LOOPBACK
from penstock.lab.result import LatencyMs
from penstock.sweep.fluid import Curves, Flags, Reals, Wholes

NEARLY: Final = 1e-6
IDLE_MS: Final = (
    2 * LOOPBACK.trip_ns
    + INTERPRETED.poll_ns
    + INTERPRETED.read_ns
    + INTERPRETED.parse_ns
    + INTERPRETED.route_ns
    + INTERPRETED.take_ns
    + INTERPRETED.send_ns
    + 3 * INTERPRETED.turn_ns
) / 1e6
"""Through an idle broker and back, in the event simulator's costs; the model itself takes no time
for it."""


@dataclass(frozen=True, slots=True)
class WatchedPublishers:
    """Arrays, an element for each publisher whose curves are kept. weights: how many it stands
    for; is_paced: its messages count from when they were due; work_ms: what the consumer of its
    queue needs for a message."""

    indices: Wholes
    weights: Reals
    is_paced: Flags
    has_confirms: Flags
    is_innocent: Flags
    work_ms: Reals


class Waits:
    """Waiting times in seconds, each with how many messages it stands for; of several runs."""

    def __init__(self) -> None:
        self.values: list[Reals] = []
        self.weights: list[Reals] = []

    def add(self, values: Reals, weights: Reals) -> None:
        self.values.append(values)
        self.weights.append(weights)

    def latency(self) -> LatencyMs:
        """Weighted percentiles, in milliseconds; 0 without any."""
        values = np.concatenate(self.values) if self.values else np.zeros(0)
        if len(values) == 0:
            return LatencyMs(0.0, 0.0, 0.0)
        order = np.argsort(values)
        sums = np.cumsum(np.concatenate(self.weights)[order])
        places = np.searchsorted(sums, np.array([0.5, 0.99, 0.999]) * sums[-1])
        found = values[order][np.minimum(places, len(values) - 1)] * 1000 + IDLE_MS
        return LatencyMs(*(round(float(value), 3) for value in found))


def add_confirms(
    into: Waits, curves: Curves, watched: WatchedPublishers, from_s: float, to_s: float
) -> None:
    """Of publishes that are not innocent and whose wait has touched the measured stretch."""
    at_s, passages = np.array(curves.at_s), Passages(curves, watched)
    for index in np.flatnonzero(watched.has_confirms & ~watched.is_innocent):
        amounts, ends = passages(int(index))
        done_s = at_s[np.minimum(ends, len(at_s) - 1)]
        counts = (amounts > 0) & (at_s < to_s) & (done_s >= from_s)
        into.add((done_s - at_s)[counts], amounts[counts] * watched.weights[index])


def add_deliveries(
    into: Waits,
    curves: Curves,
    watched: WatchedPublishers,
    from_s: float,
    to_s: float,
    is_innocent: bool,
) -> None:
    """Of messages that arrived in the measured stretch; with `is_innocent` of innocent ones only,
    without it of all."""
    at_s, passages = np.array(curves.at_s), Passages(curves, watched)
    wanted = watched.is_innocent if is_innocent else np.ones_like(watched.is_innocent)
    taken, gone = np.array(curves.taken), np.array(curves.gone)
    for index in np.flatnonzero(wanted):
        amounts, ends = passages(int(index))
        places = taken[np.minimum(ends, len(at_s) - 1), index]
        arrived = np.searchsorted(gone[:, index], places - NEARLY)
        arrived_s = at_s[np.minimum(arrived, len(at_s) - 1)]
        counts = (amounts > 0) & (arrived < len(at_s)) & (ends < len(at_s))
        counts &= (arrived_s >= from_s) & (arrived_s < to_s)
        values = (arrived_s - at_s)[counts] + watched.work_ms[index] / 1000
        into.add(values, amounts[counts] * watched.weights[index])


class Passages:
    """When each message of each watched publisher was confirmed."""

    def __init__(self, curves: Curves, watched: WatchedPublishers) -> None:
        meant, written = np.array(curves.meant), np.array(curves.written)
        self._levels = np.where(watched.is_paced, meant, written)
        self._confirmed = np.array(curves.confirmed)

    def __call__(self, index: int) -> tuple[Reals, Wholes]:
        """By step: how much the publisher's curve rose, and the step in which the level that it
        reached was confirmed; one past the last for never."""
        levels = self._levels[:, index]
        ends = np.searchsorted(self._confirmed[:, index], levels - NEARLY)
        return np.diff(levels, prepend=0.0), ends
