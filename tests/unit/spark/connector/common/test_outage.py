"""Which refusals a query waits out, as for a broker that is away."""

import pytest

from penstock.client.errors import ChannelClosedError, ClientError, ConnectError, NoReplyError
from penstock.spark.connector.common.outage import is_final

FINAL = (
    ConnectError("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN", 403),
    ConnectError("NOT_ALLOWED - vhost nosuch not found", 530),
    ConnectError("NOT_ALLOWED - access to vhost '/' refused for user 'writer'", 530),
    ChannelClosedError(1, 404, "NOT_FOUND - no queue 'q' in vhost '/'"),
)
PASSING = (
    ConnectError("connection refused"),
    ConnectError("CONNECTION_FORCED - broker forced connection closure", 320),
    ConnectError("NOT_ALLOWED - vhost 'a' is down", 530),
    ConnectError(
        "NOT_ALLOWED - access to vhost '/' refused for user 'writer': connection limit (3) "
        "is reached",
        530,
    ),
    NoReplyError("no answer"),
)


@pytest.mark.parametrize("error", [*FINAL, *PASSING], ids=str)
def test_what_would_be_refused_again_is_not_waited_for(error: ClientError) -> None:
    assert is_final(error) is (error in FINAL)
