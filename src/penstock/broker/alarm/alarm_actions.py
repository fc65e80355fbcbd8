"""What an alarm does to a publish, by virtual host and user.

The first row of the configuration that fits decides, otherwise the broker's own action. A policy of
the queue that a publish is for goes before both, see broker/connection/connection.
"""

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.broker.connection.connection import ACTION_BLOCK, ACTION_CLOSE, ACTION_NACK

ACTIONS = (ACTION_BLOCK, ACTION_NACK, ACTION_CLOSE)


class AlarmActions:
    """default: the action where no row fits; one of ACTIONS. Raises: OperatorError."""

    def __init__(self, default: str, rows: tuple[AlarmAction, ...]) -> None:
        self.default = checked(default)
        self.rows = rows
        for row in rows:
            checked(row.action)

    def of(self, vhost: str, user: str) -> str:
        """The action for publishes of `user` in `vhost`."""
        for row in self.rows:
            if row.vhost in ("", vhost) and row.user in ("", user):
                return row.action
        return self.default

    def change(self, text: str) -> None:
        """Another action where no row fits. Raises: OperatorError; then nothing has changed."""
        self.default = checked(text)


def checked(text: str) -> str:
    """`text` if it is an action. Raises: OperatorError naming those that there are."""
    stripped = text.strip()
    if stripped not in ACTIONS:
        raise OperatorError(f"alarm action '{text}' is unknown; one of: {', '.join(ACTIONS)}")
    return stripped
