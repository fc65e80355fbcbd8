"""Spark's data source `amqp`: queues and streams of AMQP 0-9-1 brokers in, confirmed rows out.

In it: options, planners and readers for leases, queues and streams, and the sink.
Enters: options of a query, offsets of its checkpoint, rows to publish.
Leaves: Arrow batches of messages, and messages that the broker has confirmed.
Begin with: source.
"""
