"""One Spark session with every setting that a fresh machine needs."""

from penstock.spark.session.session import LATENCY_SETTINGS, leave_out_checksums, open_session

__all__ = ["LATENCY_SETTINGS", "leave_out_checksums", "open_session"]
