"""`penstock management`: the HTTP API and metrics of a broker that runs, in a process of its own."""

import click

from penstock.base.errors import OperatorError
from penstock.cli.asking import RunningBroker, asking

PORT = 15672


@click.command()
@click.option("--http-host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--http-port", default=PORT, show_default=True, type=click.IntRange(1, 65_535))
@click.option("--http-cert", default="", help="PEM file with the certificate, for HTTPS.")
@click.option("--http-key", default="", help="PEM file with its key, if it is another file.")
@asking
def management(
    http_host: str, http_port: int, http_cert: str, http_key: str, broker: RunningBroker
) -> None:
    """Serve RabbitMQ's HTTP API for the broker on this machine, until Ctrl-C."""
    try:
        from penstock.management.process import ManagementConfig, serve
    except ImportError as error:
        raise OperatorError(
            f"{error.name} is not installed; pip install 'penstock[management]'"
        ) from error
    node = broker.ask({"op": "objects", "do": "node"})
    listeners = node["listeners"]
    assert isinstance(listeners, list) and listeners, "a broker that runs has a port"
    first = listeners[0]
    click.echo(f" ✔ HTTP     http{'s' if http_cert else ''}://{http_host}:{http_port}/api/overview")
    serve(
        ManagementConfig(
            broker.path,
            str(first["ip_address"]),
            int(first["port"]),
            bool(first["tls"]),
            http_host,
            http_port,
            http_cert,
            http_key,
        )
    )
