"""One channel: publishing, consuming, settling, transactions.

In it: the actor of a channel, its routes, its parked publishes, its unacknowledged deliveries.
Enters: publishes and methods from the connection, in the order they came.
Leaves: messages on lanes to queues, returns, confirms, and settlements for queues.
Begin with: channel.
"""
