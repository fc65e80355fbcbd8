"""One Spark session with every setting that a fresh machine or a cluster needs.

In it: settings of driver and workers, what a cluster needs, Ctrl-C, the end of queries.
Enters: a Java, and the master, "" for this machine.
Leaves: a session, which ends with its block.
Begin with: session.
"""

from penstock.spark.session.session import LATENCY_SETTINGS, leave_out_checksums, open_session
from penstock.spark.session.watching import end_queries

__all__ = ["LATENCY_SETTINGS", "end_queries", "leave_out_checksums", "open_session"]
