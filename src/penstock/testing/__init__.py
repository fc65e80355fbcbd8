"""A broker for tests: a process of its own, in memory, on a free port, gone with the tests.

In it: the broker as a context manager, its virtual hosts, what is left in them when a test fails.
Enters: settings, names of queues, what a test wants to be in the way.
Leaves: URLs for any client, counts of messages, explanations.
Begin with: broker, then vhost.
"""

from penstock.testing.broker import Broker
from penstock.testing.vhost import NotEmptyError, Queue, VirtualHost

__all__ = ["Broker", "NotEmptyError", "Queue", "VirtualHost"]
