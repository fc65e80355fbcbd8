"""Virtual hosts made and deleted while the broker runs.

Those of the configuration are changed there, because it goes first at the next start.
Source: rabbitmqctl add_vhost, delete_vhost; texts to clients are RabbitMQ's.
"""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import VHOSTS_MAX
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_rows import NAME_BYTES_MAX
from penstock.broker.admin.users import put_out
from penstock.broker.broker import Broker
from penstock.broker.vhost.vhost import PREDECLARED, VirtualHost
from penstock.routing.default import DEFAULT_EXCHANGE_NAME

STEPS_PER_TURN: Final = 16
"""Connections, exchanges or queues that go in one turn."""


def add(broker: Broker, name: str) -> None:
    """A new virtual host, in which only users of the configuration may do something yet.

    Raises: OperatorError, as everything here."""
    if name in broker.vhosts:
        raise OperatorError(f"vhost '{name}' is there already")
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise OperatorError(f"a virtual host's name has 1 to {NAME_BYTES_MAX} bytes")
    if len(broker.vhosts) >= VHOSTS_MAX.default:
        raise OperatorError(
            f"there are {VHOSTS_MAX.default} virtual hosts, and no more may be (vhosts_max)"
        )
    broker.add_vhost(name)


def delete(broker: Broker, name: str) -> "Deletion":
    """`name` is no more, nor are its queues with their messages, exchanges, policies, limits and
    permissions; its connections are closed. From now on nobody can open it, and the rest is done
    in turns, whether or not anybody waits for it."""
    vhost = broker.vhosts.get(name)
    if vhost is None:
        known = ", ".join(sorted(broker.vhosts))
        raise OperatorError(f"no vhost '{name}'; there is: {known}")
    if name in broker.config.vhosts:
        raise OperatorError(
            f"vhost '{name}' is in the configuration, which goes first; take it out there, start "
            "the broker anew, and delete it then"
        )
    if name == broker.config.event_stream:
        raise OperatorError(
            f"vhost '{name}' has the stream of flow events (event_stream); name another one in the "
            "configuration, and start the broker anew"
        )
    if vhost.is_leaving:
        raise OperatorError(f"vhost '{name}' is being deleted already")
    vhost.is_leaving = True
    deletion = Deletion(broker, vhost)
    broker.cleanup.begin(deletion)
    return deletion


class Deletion(Errand):
    """connections, queues: how many were closed and deleted; is_done: nothing is left."""

    def __init__(self, broker: Broker, vhost: VirtualHost) -> None:
        self.connections = 0
        self.queues = vhost.counted_queues()
        self.is_done = False
        self._steps = self._delete(broker, vhost)

    def step(self) -> bool:
        for _ in range(STEPS_PER_TURN):
            try:
                next(self._steps)
            except StopIteration:
                self.is_done = True
                return False
        return True

    def _delete(self, broker: Broker, vhost: VirtualHost) -> Steps[None]:
        why = f"vhost '{vhost.name}' is deleted"
        self.connections = yield from put_out(broker, why, vhost=vhost.name)
        kept = {DEFAULT_EXCHANGE_NAME, *(name for name, _ in PREDECLARED)}
        while names := [one.name for one in vhost.router.exchanges() if one.name not in kept]:
            for name in names:
                found = vhost.find_exchange(name)
                # It may have gone with another that it was bound to.
                if found is not None:
                    vhost.remove_exchange(found)
                yield 0.0
        while vhost.queues:
            vhost.remove_queue(next(iter(vhost.queues.values())))
            yield 0.0
        broker.drop_vhost(vhost.name)
