"""`penstock management`: the HTTP API and metrics of a broker, in a process of its own."""

from collections.abc import Callable
from functools import wraps

import click

from penstock.base.errors import OperatorError
from penstock.cli.asking import RunningBroker, asking
from penstock.client.url import BrokerUrl, parse_url

PORT = 15672
METRICS_PORT = 15692


def management_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `serve` the options of the management process, as settings called `managing`."""

    @click.option(
        "--management/--no-management",
        default=None,
        help="HTTP API and metrics.  [default: on port 5672 only]",
    )
    @click.option("--http-port", default=None, type=int, help="Its port.  [default: 15672]")
    @click.option("--metrics-port", default=None, type=int, help="-1: none.  [default: 15692]")
    @wraps(command)
    def with_management(
        *args: object,
        management: bool | None,
        http_port: int | None,
        metrics_port: int | None,
        **given: object,
    ) -> None:
        managing: dict[str, object] = {}
        if management is not None:
            managing["management"] = "on" if management else "off"
        if http_port is not None:
            managing["management_port"] = http_port
        if metrics_port is not None:
            managing["metrics_port"] = metrics_port
        command(*args, managing=managing, **given)

    return with_management


@click.command()
@click.option("--http-host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--http-port", default=PORT, show_default=True, type=click.IntRange(1, 65_535))
@click.option(
    "--metrics-port",
    default=METRICS_PORT,
    show_default=True,
    type=click.IntRange(-1, 65_535),
    help="Port for Prometheus, -1 for none.",
)
@click.option("--parent", default=0, hidden=True, type=int)
@click.option("--amqp", default="", hidden=True)
@click.option("--cluster", default="", hidden=True)
@click.option("--http-cert", default="", help="PEM file with the certificate, for HTTPS.")
@click.option("--http-key", default="", help="PEM file with its key, if it is another file.")
@asking
def management(
    http_host: str,
    http_port: int,
    metrics_port: int,
    parent: int,
    amqp: str,
    cluster: str,
    http_cert: str,
    http_key: str,
    broker: RunningBroker,
) -> None:
    """Serve RabbitMQ's HTTP API for the broker on this machine, until Ctrl-C."""
    if broker.http is not None:
        raise click.UsageError(
            "--url is where this would serve; it asks a broker by --port or --control"
        )
    try:
        from penstock.management.process import ManagementConfig, serve
    except ImportError as error:
        raise OperatorError(
            f"{error.name} is not installed; pip install 'penstock-mq[management]'"
        ) from error
    where = parse_url(amqp) if amqp else _listener(broker)
    scheme = "https" if http_cert else "http"

    def announce() -> None:
        root = f"{scheme}://{http_host}:{http_port}/"
        click.echo(f" ✔ pages    {root}   RabbitMQ's HTTP API below {root}api/")
        if metrics_port >= 0:
            click.echo(f" ✔ metrics  {scheme}://{http_host}:{metrics_port}/metrics")

    serve(
        ManagementConfig(
            control=broker.path,
            amqp_host=where.host,
            amqp_port=where.port,
            amqp_tls=where.tls,
            host=http_host,
            port=http_port,
            metrics_port=metrics_port,
            parent=parent,
            tls_cert=http_cert,
            tls_key=http_key,
            cluster=cluster,
        ),
        announce,
    )


def _listener(broker: RunningBroker) -> BrokerUrl:
    """Where it takes clients. Raises: OperatorError."""
    found = broker.ask({"op": "objects", "do": "node"})["items"]
    assert isinstance(found, list) and found[0]["listeners"], "a broker that runs has a port"
    first = found[0]["listeners"][0]
    return BrokerUrl(str(first["ip_address"]), int(first["port"]), tls=bool(first["tls"]))
