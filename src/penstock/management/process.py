"""The management process itself: listens for HTTP, asks one broker, ends with it or on a signal."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from penstock.base.errors import OperatorError
from penstock.base.limits import MANAGEMENT_CONNECTIONS
from penstock.management.access import Logins
from penstock.management.amqp_writes import AmqpWrites
from penstock.management.app import make_app, make_metrics_app
from penstock.management.broker_link import BrokerLink
from penstock.management.metrics import Metrics
from penstock.management.requests import Services

RABBITMQ_VERSION: Final = "3.10.8"
"""What clients that branch on the version are told: the one whose answers these are."""
KEEP_ALIVE_S: Final = 75
LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ManagementConfig:
    """control: the broker's control socket; amqp_*: where it listens for AMQP; host, port: of HTTP;
    metrics_port: of metrics, -1 for none; parent: the process with which it ends, 0 for none;
    tls_cert, tls_key: PEM files, "" for plain HTTP; cluster: control socket of the member,
    "" for a broker without one."""

    control: str
    amqp_host: str
    amqp_port: int
    amqp_tls: bool
    host: str
    port: int
    metrics_port: int = -1
    parent: int = 0
    tls_cert: str = ""
    tls_key: str = ""
    cluster: str = ""


def serve(config: ManagementConfig, announce: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, or until `parent` is gone. `announce` is called once both
    ports answer. Raises: OperatorError when one of them cannot be used."""
    _check_certificate(config)
    link = BrokerLink(config.control)
    writes = AmqpWrites(config.amqp_host, config.amqp_port, config.amqp_tls)
    cluster = BrokerLink(config.cluster) if config.cluster else None
    services = Services(link, Logins(link), writes, RABBITMQ_VERSION, cluster)
    servers = [_Server(_config(config, make_app(services), config.port))]
    if config.metrics_port >= 0:
        app = make_metrics_app(Metrics(link, RABBITMQ_VERSION))
        servers.append(_Server(_config(config, app, config.metrics_port)))
    # Whatever the broker does goes first on a busy machine.
    os.nice(5)
    asyncio.run(_run(config, servers, announce))


def _check_certificate(config: ManagementConfig) -> None:
    """Raises: OperatorError for files of HTTPS that cannot be used."""
    if not config.tls_cert:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.tls_cert, config.tls_key or None)
    except OSError as error:
        raise OperatorError(
            f"the certificate {config.tls_cert} with the key {config.tls_key or config.tls_cert} "
            f"cannot be used for HTTPS: {error.strerror or error}; give two PEM files that belong "
            "together with --http-cert and --http-key"
        ) from error


def _config(config: ManagementConfig, app: ASGIApp, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=config.host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=MANAGEMENT_CONNECTIONS.default,
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_certfile=config.tls_cert or None,
        ssl_keyfile=config.tls_key or None,
    )


class _Server(uvicorn.Server):
    """Signals are for all servers of the process together."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(
    config: ManagementConfig, servers: list[_Server], announce: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked.set)
    sockets = [_bound(config.host, one.config.port) for one in servers]
    running = [
        asyncio.create_task(one.serve([sock])) for one, sock in zip(servers, sockets, strict=True)
    ]
    while not all(one.started for one in servers) and not any(one.done() for one in running):
        await asyncio.sleep(0.01)
    announce()
    while not asked.is_set() and not any(one.done() for one in running):
        if config.parent > 0 and os.getppid() != config.parent:
            # The broker is gone, however it went.
            break
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), LOOK_S)
    for one in servers:
        one.should_exit = True
    await asyncio.gather(*running)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OperatorError(
            f"cannot listen on {host}:{port} for HTTP: {error.strerror or error}; choose another "
            "port with --http-port or --metrics-port"
        ) from error
    return sock
