"""One Spark session with every setting that a fresh machine or a cluster needs.

In it: settings of driver and workers, what a cluster needs, Ctrl-C.
Enters: a Java, and the master, "" for this machine.
Leaves: a session, which ends with its block.
Begin with: session.
"""

from penstock.spark.session.session import LATENCY_SETTINGS, leave_out_checksums, open_session

__all__ = ["LATENCY_SETTINGS", "leave_out_checksums", "open_session"]
