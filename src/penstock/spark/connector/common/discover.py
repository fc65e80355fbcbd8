"""Finds the queues of a pattern, where the broker lists them (docs/requests.md, queue.list). IO."""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SourceOptions, parse_source
from penstock.spark.connector.common.queue_names import matching

CAPABILITY: Final = "penstock.requests"


def parse_and_find(given: Mapping[str, str], name: str) -> SourceOptions:
    """Options of a source, with queuePattern made into names. name: of the connection it takes.

    Raises: OperatorError, also where nothing matches or the broker does not list its queues;
    ClientError.
    """
    options = parse_source(given)
    if not options.pattern:
        return options
    kind = "stream" if options.mode == "stream" else "queue"
    found = matching(options.pattern, _listed(options, kind, name))
    if not found:
        raise OperatorError(
            f"option queuePattern is {options.pattern!r}, and no {kind} of that name is there, as "
            "a whole, among those that are not exclusive"
        )
    return parse_source(given, found)


def _listed(options: SourceOptions, kind: str, name: str) -> list[str]:
    with open_connection(options.endpoint, name) as connection:
        if CAPABILITY not in connection.session.server_capabilities():
            raise OperatorError(
                f"option queuePattern: the broker at {options.endpoint.url.address()} does not "
                "list its queues over AMQP, as Penstock does; name them with option queues"
            )
        channel = connection.channel()
        names: list[str] = []
        after = ""
        while True:
            answer = channel.request("queue.list", {"type": kind, "after": after})
            page = answer["names"]
            assert isinstance(page, list), "docs/requests.md says so"
            names += [str(one) for one in page]
            if answer["is_last"] or not page:
                return names
            after = names[-1]
