"""Publishes rows, at least once or exactly once.

In it: rows to messages, a confirming publisher, staged transactions by batch.
Enters: the rows of a micro-batch in its tasks.
Leaves: confirmed messages; a batch that Spark repeats is published once where that is asked for.
Begin with: sink.
"""
