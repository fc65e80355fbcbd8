"""What an alarm does to one publish where a policy says so of a queue that it is for.

`alarm-action` of a policy goes before the connection's own action. Of a publish for several queues
the most drastic one counts: close before nack, nack before block; a queue without a policy counts
as the connection does. Only asked while an alarm is set, in a virtual host where some queue has had
such a policy. COMPILED.
"""

from typing import Final

from penstock.base.errors import PeerError
from penstock.broker.channel.publish import Publisher
from penstock.protocol.content import Message

ORDER: Final = ("block", "nack", "close")
KEY: Final = "alarm-action"


def action_for(publisher: Publisher, message: Message, default: str) -> str:
    """One of ORDER. default: of the connection, and of a publish that goes nowhere."""
    if not publisher.vhost.has_alarm_actions:
        return default
    try:
        targets = publisher.targets_of(message)
    except PeerError:
        # It is told in its place among the others, when the publish has its turn.
        return default
    if not targets:
        return default
    worst = 0
    for target in targets:
        applied = target.actor.applied
        action = default if applied is None else str(applied.definition.get(KEY, default))
        worst = max(worst, ORDER.index(action))
    return ORDER[worst]
