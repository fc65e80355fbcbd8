"""Reads ordinary queues by consumers, at least once.

In it: the feed from one consumer, a ledger of what was delivered and not settled, the reader.
Enters: deliveries, and the start of the next batch.
Leaves: batches of deliveries, and acknowledgements when a batch is in Spark's commit log.
Begin with: queue_source.
"""
