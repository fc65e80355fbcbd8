"""What happens to a publish that waits for a queue when there is no room to park it. COMPILED."""

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.queues.policy_keys import FULL_ACTIONS

STOP, NACK, CLOSE = FULL_ACTIONS


class FullActions:
    """What happens to a publish that waits for a queue when there is no room to park it.

    stop    its channel takes nothing more, and then the connection is not read (the default)
    nack    on a confirming channel it is answered basic.nack; otherwise stop
    close   406 closes its channel

    default: where no row fits; the first row that fits counts. Raises: OperatorError.
    """

    __slots__ = ("default", "rows")

    def __init__(self, default: str, rows: tuple[AlarmAction, ...]) -> None:
        self.default = known_action(default)
        self.rows = rows
        for row in rows:
            known_action(row.action)

    def of(self, vhost: str, user: str) -> str:
        """For publishes of `user` in `vhost`."""
        for row in self.rows:
            if row.vhost in ("", vhost) and row.user in ("", user):
                return row.action
        return self.default


def known_action(text: str) -> str:
    """`text` if it is an action. Raises: OperatorError naming those that there are."""
    if text not in FULL_ACTIONS:
        raise OperatorError(f"parked_full '{text}' is unknown; one of: {', '.join(FULL_ACTIONS)}")
    return text
