"""Prints docs/state-machines.md from the tables of transitions that the code goes by."""

import sys
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from penstock.broker.channel import parked_line, parking
from penstock.broker.connection import phases
from penstock.broker.paging import pager
from penstock.broker.store import commit_state
from penstock.flow import channel_flow
from penstock.protocol import handshake

State = TypeVar("State", bound=Enum)
Cause = TypeVar("Cause", bound=Enum)
Action = TypeVar("Action", bound=Enum)


class Silence(Enum):
    """The action of tables that have none."""

    NOTHING = "nothing"


HEADER = """\
# State machines

This page is printed by `make docs` from tables in the source; edit those. What is not drawn in a
state leaves it as it is, or is a fault.
"""


def only_moves(
    table: Mapping[tuple[State, Cause], State],
) -> dict[tuple[State, Cause], tuple[State, Silence]]:
    """A table without actions, as `drawn` wants it."""
    return {key: (after, Silence.NOTHING) for key, after in table.items()}


def drawn(table: Mapping[tuple[State, Cause], tuple[State, Action]], first: State) -> str:
    """A table as a Mermaid diagram; what neither moves nor does anything is left out."""
    states = {state: None for (before, _), (after, _) in table.items() for state in (before, after)}
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{state.value}" as {state.name}' for state in states]
    lines.append(f"    [*] --> {first.name}")
    for (before, cause), (after, action) in table.items():
        is_silent = action.value == "nothing"
        if before is after and is_silent:
            continue
        what = cause.value if is_silent else f"{cause.value} / {action.value}"
        lines.append(f"    {before.name} --> {after.name}: {what}")
    return "\n".join([*lines, "```", ""])


def drawn_phases() -> str:
    """The phases of a connection, as `drawn` would."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {phases.PHASE_NAMES[0]}"]
    for (before, cause), after in phases.TRANSITIONS.items():
        if before != after:
            names = phases.PHASE_NAMES[before], phases.PHASE_NAMES[after]
            lines.append(f"    {names[0]} --> {names[1]}: {cause}")
    return "\n".join([*lines, "```", ""])


def page() -> str:
    """The whole page; the same tables give the same text."""
    return "\n".join(
        [
            HEADER,
            "## A connection\n",
            "`broker/connection/phases`: from the socket's first byte to its end.\n",
            drawn_phases(),
            "## Opening a connection\n",
            "`protocol/handshake`: from the protocol header to connection.open-ok. The names of "
            "states are\nthose that RabbitMQ puts into its reply texts.\n",
            drawn(handshake.TRANSITIONS, handshake.HandshakeStage.EXPECT_HEADER),
            "## channel.flow\n",
            "`flow/channel_flow`: what a client has been told about its publishes on one channel, "
            "and what it\nhas answered.\n",
            drawn(channel_flow.TRANSITIONS, channel_flow.Told.FREE),
            "## Parking of one publish\n",
            "`broker/channel/parking`: where a publish waits that cannot go on. Nothing is read "
            "behind one in\nfront of a full entrance.\n",
            drawn(only_moves(parking.TRANSITIONS), parking.ParkedAt.MOVING),
            "## A piece of a parked line on the disk\n",
            "`broker/channel/parked_line`: publishes that wait for one queue and go to the disk "
            "together.\n",
            drawn(only_moves(parked_line.TRANSITIONS), parked_line.PieceAt.WRITING),
            "## Batches of a store\n",
            "`broker/store/commit_state`: what a message store, or the store of streams, does with "
            "one batch\nafter the other.\n",
            drawn(commit_state.TRANSITIONS, commit_state.CommitState.FREE),
            "## Paging of one queue\n",
            "`broker/paging/pager`: whether a queue has messages on the disk, and what becomes of "
            "reading them\nback.\n",
            drawn(only_moves(pager.TRANSITIONS), pager.PagerPhase.IN_MEMORY),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(page())
