"""Where the dead letters of a queue go under the rules it has got."""

from penstock.broker.dead_letter.dead_letters import DeadLetters
from penstock.broker.dead_letter.letter_desk import LetterDesk
from penstock.broker.queue.queue_actor import QueueActor, QueueRuling
from penstock.queues.rules import DROP_HEAD, QueueRules


def address_letters(
    desk: LetterDesk, actor: QueueActor, ruling: QueueRuling, rules: QueueRules
) -> None:
    """Dead letters of `actor`, which goes by `rules` from now on, go where they say."""
    letters = ruling.dead_letters
    if letters is None:
        if rules.dead_letter_exchange is None:
            return
        letters = DeadLetters(actor, desk)
        ruling.dead_letters = letters
    assert isinstance(letters, DeadLetters), "there is one kind"
    is_confirmed = rules.is_at_least_once
    if is_confirmed and rules.overflow == DROP_HEAD:
        is_confirmed = False
        desk.log.warning(
            f"{actor.identity}: x-dead-letter-strategy at-least-once needs x-overflow "
            "reject-publish; at-most-once is in force until it is set"
        )
    letters.change(rules, is_confirmed)
