"""What dead letters owe and hold, for the laws of the ledger: they travel on lanes between queues,
charged to the cause of each, and those that wait rest in the queue where they died."""

from collections.abc import Iterator

from penstock.base.cause import Cause
from penstock.broker.dead_letter.dead_letters import DeadLane, DeadLetter, DeadLetters, LaneAnswers
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.store_lane import Parcel
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.simulation.machine.faults import LawBroken


def letters_to(queue: QueueActor) -> Iterator[tuple[Cause, int]]:
    """Cause and size of every letter that `queue` has not answered for."""
    for lane in queue.lanes:
        if isinstance(lane, DeadLane):
            for message in lane.under_way:
                yield message.origin, len(message.raw)


def letters_unsafe(parcel: Parcel) -> Iterator[tuple[Cause, int]]:
    """Cause and size of every letter in `parcel`, whose queue is gone, that has no answer yet."""
    answers = parcel.answerable
    lane = answers.lane if isinstance(answers, LaneAnswers) else None
    if lane is not None and not lane.receiving.is_alive:
        for message in parcel.messages:
            if message in lane.under_way:
                yield message.origin, len(message.raw)


def held_by(letters: DeadLetters) -> list[DeadLetter]:
    """Everything that rests in the queue where it died."""
    found = [*letters.late, *letters.stuck]
    for lane in letters.lanes.values():
        for letter in [*lane.under_way.values(), *lane.kept]:
            if letter.is_held and letter not in found:
                found.append(letter)
    return found


def letters_stored(queue: QueueActor) -> Iterator[tuple[Cause, int]]:
    """Cause and bytes of every letter that is charged as stored: those on their way to `queue`,
    and those that died in it and rest there. Raises: LawBroken."""
    for lane in queue.lanes:
        if isinstance(lane, DeadLane):
            # What the queue has taken is among its messages, although it may wait for the disk.
            for message in lane.items[int(lane.head) :]:
                yield message.origin, len(message.raw) + MESSAGE_OVERHEAD_BYTES
    letters = None if queue.ruling is None else queue.ruling.dead_letters
    if isinstance(letters, DeadLetters):
        held = held_by(letters)
        held_bytes = sum(int(letter.size) for letter in held)
        if held_bytes != letters.held_bytes:
            raise LawBroken(
                f"{queue.identity}: letters of {held_bytes} bytes rest, {letters.held_bytes} known"
            )
        if letters.window and letters.count > letters.window:
            raise LawBroken(f"{queue.identity}: {letters.count} letters, window {letters.window}")
        for letter in held:
            yield letter.message.origin, int(letter.size)


def is_waiting_for_letters(queue: QueueActor) -> bool:
    """Whether its first message is dead and there is no room for its letter, so that consumers are
    given nothing until there is."""
    letters = None if queue.ruling is None else queue.ruling.dead_letters
    return isinstance(letters, DeadLetters) and letters.is_asked and letters.is_stalled()
