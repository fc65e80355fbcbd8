"""What an alarm does to a publish. COMPILED."""

from typing import Final

from penstock.base.errors import PeerError
from penstock.broker.channel.channel import Channel
from penstock.protocol.content import Message

ACTION_BLOCK: Final = "block"
ACTION_NACK: Final = "nack"
ACTION_CLOSE: Final = "close"
ACTIONS: Final = (ACTION_BLOCK, ACTION_NACK, ACTION_CLOSE)
"""What an alarm does to a publish, the most drastic one last."""
ACTION_KEY: Final = "alarm-action"


def action_for(channel: Channel, message: Message, alarm_action: str) -> str:
    """What an alarm does to `message`: what its queues' policies say, or `alarm_action`, the
    connection's."""
    publisher = channel.publisher
    if not publisher.vhost.has_alarm_actions:
        return alarm_action
    try:
        targets = publisher.targets_of(message)
    except PeerError:
        # It is told in its place among the others, when the publish has its turn.
        return alarm_action
    worst = 0 if targets else ACTIONS.index(alarm_action)
    for target in targets:
        applied = target.actor.applied
        given = None if applied is None else applied.definition.get(ACTION_KEY)
        worst = max(worst, ACTIONS.index(alarm_action if given is None else str(given)))
    return ACTIONS[worst]
