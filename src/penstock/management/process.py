"""The management process itself: listens for HTTP, asks one broker, ends with it or on a signal."""

import os
from dataclasses import dataclass
from typing import Final

import uvicorn

from penstock.base.limits import MANAGEMENT_CONNECTIONS
from penstock.management.access import Logins
from penstock.management.amqp_writes import AmqpWrites
from penstock.management.app import make_app
from penstock.management.broker_link import BrokerLink
from penstock.management.requests import Services

RABBITMQ_VERSION: Final = "3.10.8"
"""What clients that branch on the version are told: the one whose answers these are."""
KEEP_ALIVE_S: Final = 75


@dataclass(frozen=True, slots=True)
class ManagementConfig:
    """control: the broker's control socket; amqp_*: where it listens for AMQP; host, port: of HTTP;
    tls_cert, tls_key: PEM files, "" for plain HTTP."""

    control: str
    amqp_host: str
    amqp_port: int
    amqp_tls: bool
    host: str
    port: int
    tls_cert: str = ""
    tls_key: str = ""


def serve(config: ManagementConfig) -> None:
    """Serve until SIGTERM or SIGINT."""
    link = BrokerLink(config.control)
    writes = AmqpWrites(config.amqp_host, config.amqp_port, config.amqp_tls)
    services = Services(link, Logins(link), writes, RABBITMQ_VERSION)
    # Whatever the broker does goes first on a busy machine.
    os.nice(5)
    uvicorn.run(
        make_app(services),
        host=config.host,
        port=config.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MANAGEMENT_CONNECTIONS.default,
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_certfile=config.tls_cert or None,
        ssl_keyfile=config.tls_key or None,
    )
