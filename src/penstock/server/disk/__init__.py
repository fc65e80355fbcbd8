"""Files, the metadata database and the thread that writes.

In it: the data directory, files as the message log uses them, starting and checking stores.
Enters: jobs of stores and streams, and changes of the catalogue.
Leaves: the news that a job has ended, or failed, on the event loop.
Begin with: durable_state.
"""
