"""What a store does with one batch after the other, as a table that `GroupCommit` goes by."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class CommitState(Enum):
    """Where the batch is that was made last. FULL: tried again until there is room; FAILED: the
    end, nothing is confirmed any more."""

    FREE = "no batch under way"
    GATHERING = "waiting for more messages"
    WRITING = "being written"
    FULL = "waiting for room"
    FAILED = "failed"


class CommitInput(Enum):
    """What moves it: the end of a run of the scheduler, the disk, or time."""

    WAIT = "more messages are about to come"
    SEND = "the batch is made"
    EMPTY = "the batch has nothing for the disk"
    WRITTEN = "it is on the disk"
    NO_ROOM = "there is no room, or no file handle"
    RETRY = "some time has passed"
    ERROR = "any other error"


class CommitAction(Enum):
    """What the store does next."""

    NOTHING = "nothing"
    START_TIMER = "start the timer"
    SUBMIT = "hand it to the disk"
    ANSWER = "answer its requests"
    SAY_FULL = "raise the disk alarm, try again later"
    TRY_LATER = "try again later"
    SAY_ROOM = "clear the disk alarm, answer its requests"
    SAY_FAILED = "stop the broker"


TRANSITIONS: Final[Mapping[tuple[CommitState, CommitInput], tuple[CommitState, CommitAction]]] = (
    MappingProxyType(
        {
            (CommitState.FREE, CommitInput.WAIT): (CommitState.GATHERING, CommitAction.START_TIMER),
            (CommitState.FREE, CommitInput.SEND): (CommitState.WRITING, CommitAction.SUBMIT),
            (CommitState.FREE, CommitInput.EMPTY): (CommitState.FREE, CommitAction.ANSWER),
            (CommitState.GATHERING, CommitInput.WAIT): (
                CommitState.GATHERING,
                CommitAction.NOTHING,
            ),
            (CommitState.GATHERING, CommitInput.SEND): (CommitState.WRITING, CommitAction.SUBMIT),
            (CommitState.GATHERING, CommitInput.EMPTY): (CommitState.FREE, CommitAction.ANSWER),
            (CommitState.WRITING, CommitInput.WRITTEN): (CommitState.FREE, CommitAction.ANSWER),
            (CommitState.WRITING, CommitInput.NO_ROOM): (CommitState.FULL, CommitAction.SAY_FULL),
            (CommitState.WRITING, CommitInput.ERROR): (CommitState.FAILED, CommitAction.SAY_FAILED),
            (CommitState.FULL, CommitInput.RETRY): (CommitState.FULL, CommitAction.SUBMIT),
            (CommitState.FULL, CommitInput.WRITTEN): (CommitState.FREE, CommitAction.SAY_ROOM),
            (CommitState.FULL, CommitInput.NO_ROOM): (CommitState.FULL, CommitAction.TRY_LATER),
            (CommitState.FULL, CommitInput.ERROR): (CommitState.FAILED, CommitAction.SAY_FAILED),
        }
    )
)
