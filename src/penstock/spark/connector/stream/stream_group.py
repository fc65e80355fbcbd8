"""Tells a Penstock broker how far a query has read a stream, so that the stream waits for it.

Spark's commit of a batch is certain when it asks for the next one, so a group moves then, to the
start of that batch, and never in `commit` (`source`). What lies behind it may go by retention; a
query that falls too far behind holds the stream's publishers (docs/streams.md).
"""

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.protocol.constants import NOT_FOUND
from penstock.protocol.values import Table
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.stream.stream_tail import StreamEnds


class GroupMember:
    """The group of one query on one stream; nothing at all for a query without one."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._is_registered = False
        self._passed = -1

    def passed(self, ends: StreamEnds, start: int) -> bool:
        """Everything before `start` is committed. False when the broker did not know the group any
        more, and `ends` is of no use now; then once again, over another connection.

        Raises: OperatorError for a broker that has no groups; ClientError.
        """
        options = self._options
        if not options.group or self._passed == start:
            return True
        if not ends.can_ask:
            raise OperatorError(
                f"option group: the broker at {options.endpoint.url.address()} has no groups that "
                "read streams; leave the option out"
            )
        table: Table = {"queue": options.queue, "group": options.group, "offset": start}
        if not self._is_registered:
            if options.max_lag_rows > 0:
                table["max_lag_messages"] = options.max_lag_rows
            if options.max_lag_bytes > 0:
                table["max_lag_bytes"] = options.max_lag_bytes
            ends.request("stream.group.register", table)
        else:
            try:
                ends.request("stream.group.advance", table)
            except ChannelClosedError as error:
                if error.code != NOT_FOUND or "no group" not in error.text:
                    raise
                # Somebody has removed it, or the stream was made anew.
                self._is_registered = False
                return False
        self._is_registered = True
        self._passed = start
        return True
