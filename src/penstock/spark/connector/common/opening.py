"""Opens connections for readers and writers, lists the queues of a pattern, finds out what a queue
is and how its broker lets it be read (mode=auto). IO.

Secrets come from where they lie, with TLS and a connection name. Penstock says what a queue is, and
lists queues by queue.list (docs/requests.md). Other brokers are asked for a consumer at an offset
(x-stream-offset=next): for a stream there is one, and it gets nothing before the next row; for an
ordinary queue RabbitMQ refuses it with 406 before it is given anything.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError, ConnectError
from penstock.client.io_blocking import Connection, connect
from penstock.client.url import BrokerUrl
from penstock.protocol.constants import NOT_FOUND, PRECONDITION_FAILED
from penstock.protocol.values import Table
from penstock.spark.connector.common.endpoint import Endpoint, labelled
from penstock.spark.connector.common.labels import in_task
from penstock.spark.connector.common.option_values import AUTO, matching
from penstock.spark.connector.common.options import SourceOptions, parse_source
from penstock.spark.connector.common.outage import is_final, patiently

STREAM: Final = "stream"
LEASE: Final = "lease"
QUEUE: Final = "queue"
REQUESTS: Final = "penstock.requests"
LEASES: Final = "penstock.leases"
NO_GROUP: Final = "mode=auto"
"""A group that nobody makes; asking for it changes nothing."""
HEARTBEAT_S: Final = 30
CONNECTION_NAME: Final = "source"
LOOK_MS_MAX: Final = 5000
"""What a look at a broker may take that nobody has waited for yet. Brokers let a refused login wait
for a second, and a look that ends before would have Spark begin with what cannot go well."""


def open_connection(endpoint: Endpoint, role: str) -> Connection:
    """A connection to the broker, ready for channels. role: what it is for, shown by the broker
    behind the query's name.

    Raises: OperatorError for a secret or certificate that is not there, and for a broker whose
    certificate is not trusted; ConnectError otherwise.
    """
    labels = in_task(endpoint.labels)
    name = labels.connection_name(role)
    try:
        return connect(_with_secret(endpoint), name, _context(endpoint), spark=labels.properties())
    except ConnectError as error:
        if not isinstance(error.__cause__, ssl.SSLCertVerificationError):
            raise
        # It would be the same for as long as anybody waits.
        raise OperatorError(
            f"{error}: give option tls.caFile, a PEM file with the authority that has signed the "
            "broker's certificate, and in the address a name that it is for"
        ) from error


def _with_secret(endpoint: Endpoint) -> BrokerUrl:
    url = endpoint.url
    if url.heartbeat_s is None:
        url = replace(url, heartbeat_s=HEARTBEAT_S)
    if endpoint.password_env:
        secret = os.environ.get(endpoint.password_env)
        if secret is None:
            raise OperatorError(
                f"option passwordEnv: there is no {endpoint.password_env} in the environment of "
                f"process {os.getpid()}; set it for the driver and all executors"
            )
        return replace(url, password=secret)
    if endpoint.password_file:
        try:
            text = Path(endpoint.password_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(
                f"option passwordFile: {endpoint.password_file} cannot be read: {error}; it has to "
                "be there for the driver and all executors"
            ) from error
        return replace(url, password=text.partition("\n")[0].rstrip("\r"))
    return url


def _context(endpoint: Endpoint) -> ssl.SSLContext | None:
    if not endpoint.url.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file or None)
        if endpoint.cert_file:
            # Without a password OpenSSL would ask the terminal for one, and wait.
            key = endpoint.key_file or None
            context.load_cert_chain(endpoint.cert_file, key, _no_password)
    except (OSError, ssl.SSLError) as error:
        raise OperatorError(
            f"options tls.*: a certificate or key cannot be used: {error}"
        ) from error
    return context


def _no_password() -> str:
    raise OperatorError(
        "option tls.keyFile: the private key is encrypted, and no option takes its password; "
        "give a key without one, in a file that only the user of driver and executors may read"
    )


def first_look(endpoint: Endpoint, role: str, look: Callable[[Connection], object]) -> None:
    """Have `look` find what would end a query or a write before it has begun. A broker that is away
    is no reason: it may be there when it is needed.

    Raises: OperatorError; ClientError for what would be refused again."""
    url = endpoint.url
    timeout_ms = min(url.connection_timeout_ms, LOOK_MS_MAX)
    endpoint = replace(endpoint, url=replace(url, connection_timeout_ms=timeout_ms))
    try:
        with open_connection(endpoint, role) as connection:
            look(connection)
    except ClientError as error:
        if is_final(error):
            raise


def mode_of(connection: Connection, queue: str) -> tuple[str, str]:
    """The best mode for `queue`, and why rows come at least once where they do, "" elsewhere.

    Raises: ChannelClosedError 404 for a queue that is not there; ClientError."""
    connection.channel().declare_queue(queue, passive=True)
    if is_stream(connection, queue):
        return STREAM, ""
    if LEASES not in connection.session.server_capabilities():
        return QUEUE, "this broker has no leases, as Penstock has"
    try:
        connection.channel().request("lease.state", {"queue": queue, "group": NO_GROUP})
    except ChannelClosedError as error:
        if error.code == NOT_FOUND:
            raise
        return QUEUE, f"it cannot be leased ({error.text})"
    return LEASE, ""


def is_stream(connection: Connection, queue: str) -> bool:
    """Whether `queue` is a stream. Raises: ClientError."""
    channel = connection.channel()
    try:
        if REQUESTS in connection.session.server_capabilities():
            channel.request("stream.offsets", {"queue": queue})
            return True
        channel.qos(1)
        channel.cancel(channel.consume(queue, arguments={"x-stream-offset": "next"}))
    except ChannelClosedError as error:
        if error.code != PRECONDITION_FAILED:
            raise
        return False
    # A broker that does not know the argument has given the consumer what there was.
    delivery = channel.next_delivery(0)
    return delivery is None or "x-stream-offset" in (delivery.properties.headers or {})


def check_source(given: Mapping[str, str], role: str, application: str = "") -> SourceOptions:
    """The options of a query. Says what would end it when it is described, before Spark starts
    anything: a refused login, a queue that is not there, or that is not read in that mode.

    Raises: OperatorError, ClientError."""
    options = parse_source(given)

    def look(connection: Connection) -> None:
        if options.may_change or options.mode == AUTO:
            _found(given, options, connection)
            return
        for queue in options.queues:
            _check_mode(options.mode, queue, *mode_of(connection, queue))

    first_look(labelled(options.endpoint, application), role, look)
    return options


def _check_mode(mode: str, queue: str, fitting: str, why: str) -> None:
    """Raises: OperatorError when `queue` cannot be read in `mode`. fitting, why: see `mode_of`."""
    if fitting != mode and STREAM in (fitting, mode):
        kind = "a stream" if fitting == STREAM else "no stream"
        raise OperatorError(
            f"queue {queue!r} is {kind}, and this is mode={mode}: leave option mode out, and it is "
            "read as it can be"
        )
    if fitting == QUEUE and mode == LEASE:
        raise OperatorError(
            f"queue {queue!r} cannot be read with mode=lease: {why}. Leave option mode out, and "
            "rows come at least once"
        )


def parse_and_find(
    given: Mapping[str, str], role: str, is_patient: bool, application: str = ""
) -> SourceOptions:
    """Options of a source, with queuePattern made into names, and mode=auto into a mode. role: of
    the connection it takes; is_patient: a broker that is away is waited for, whether it has to be
    asked or not; application: Spark's name of it.

    Raises: OperatorError, also where nothing matches or the broker does not list its queues;
    ClientError.
    """
    options = parse_source(given)
    endpoint = labelled(options.endpoint, application)
    has_questions = options.may_change or options.mode == AUTO
    if not has_questions and not is_patient:
        return replace(options, endpoint=endpoint)

    def find() -> SourceOptions:
        with open_connection(endpoint, role) as connection:
            found = _found(given, options, connection) if has_questions else options
            return replace(found, endpoint=endpoint)

    return patiently(find, endpoint.reconnect_timeout_ms if is_patient else 0, role)


def _found(
    given: Mapping[str, str], options: SourceOptions, connection: Connection
) -> SourceOptions:
    if options.super_stream:
        return parse_source(given, partitions_of(options, connection))
    names = options.queues
    if options.pattern:
        names = _matching(options, connection)
    if options.mode != AUTO:
        return parse_source(given, names)
    modes = {queue: mode_of(connection, queue) for queue in names}
    streams = [queue for queue, (mode, _) in modes.items() if mode == STREAM]
    if 0 < len(streams) < len(names):
        rest = [queue for queue in names if queue not in streams]
        raise OperatorError(
            f"streams ({', '.join(streams)}) and ordinary queues ({', '.join(rest)}) are read in "
            "different modes: use two queries, or say which are meant with option mode"
        )
    if streams:
        return parse_source(given, names if options.pattern else (), STREAM)
    at_least_once = [(queue, why) for queue, (mode, why) in modes.items() if mode == QUEUE]
    parsed = parse_source(
        given, names if options.pattern else (), QUEUE if at_least_once else LEASE
    )
    if not at_least_once:
        return parsed
    queue, why = at_least_once[0]
    for name in ("group", "leaseTimeout"):
        if name.lower() in {one.lower() for one in given}:
            raise OperatorError(
                f"option {name} is for leases, with which rows come exactly once, and queue "
                f"{queue!r} has none: {why}. Leave the option out, and rows come at least once"
            )
    return replace(parsed, note=f"rows of {queue!r} come at least once: {why}")


def _matching(options: SourceOptions, connection: Connection) -> tuple[str, ...]:
    """The queues of option queuePattern. Raises: OperatorError for none."""
    kinds = {STREAM: (STREAM,), AUTO: (QUEUE, STREAM)}.get(options.mode, (QUEUE,))
    listed = [name for kind in kinds for name in _listed(options, kind, connection)]
    found = matching(options.pattern, listed)
    if not found:
        raise OperatorError(
            f"option queuePattern is {options.pattern!r}, and no {' or '.join(kinds)} of that name "
            "is there, as a whole, among those that are not exclusive"
        )
    return found


def partitions_of(options: SourceOptions, connection: Connection) -> tuple[str, ...]:
    """The partitions of option superStream, in their order, 1 or more.

    Raises: OperatorError for none, or for a broker that does not tell; ClientError, 404 for an
    exchange that is not there."""
    name = options.super_stream
    if REQUESTS not in connection.session.server_capabilities():
        raise OperatorError(
            f"option superStream: the broker at {options.endpoint.url.address()} does not say over "
            "AMQP what is bound to an exchange, as Penstock does; name the partitions with option "
            "queues"
        )
    names = _pages(
        connection,
        "stream.partitions",
        lambda names: {"super_stream": name, "from": len(names)},
    )
    if not names:
        raise OperatorError(
            f"option superStream is {name!r}, and no stream is bound to that exchange: `penstock "
            "streams add-super` makes one with its partitions"
        )
    return tuple(names)


def _listed(options: SourceOptions, kind: str, connection: Connection) -> list[str]:
    if REQUESTS not in connection.session.server_capabilities():
        raise OperatorError(
            f"option queuePattern: the broker at {options.endpoint.url.address()} does not "
            "list its queues over AMQP, as Penstock does; name them with option queues"
        )
    return _pages(
        connection,
        "queue.list",
        lambda names: {"type": kind, "after": names[-1] if names else ""},
    )


def _pages(connection: Connection, verb: str, question: Callable[[list[str]], Table]) -> list[str]:
    """All names that the broker has, a page a request. question: for what follows on some names."""
    channel = connection.channel()
    names: list[str] = []
    while True:
        answer = channel.request(verb, question(names))
        page = answer["names"]
        assert isinstance(page, list), "docs/requests.md says so"
        names += [str(one) for one in page]
        if answer["is_last"] or not page:
            return names
