"""A broker, the way to it and who comes: the options that source and sink share."""

from dataclasses import dataclass, replace

from penstock.base.errors import OperatorError
from penstock.client.url import BrokerUrl, parse_url
from penstock.spark.connector.common.labels import NOBODY, Labels
from penstock.spark.connector.common.option_values import TRIGGER_DELAY_MS_MAX, Values


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker and the way to it. The password is in `url`, which keeps it out of repr. labels: who
    comes."""

    url: BrokerUrl
    password_file: str = ""
    password_env: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    reconnect_timeout_ms: int = 60_000
    labels: Labels = NOBODY


def parse_endpoint(values: Values) -> Endpoint:
    """Where, as whom and how, of options that source and sink share. Raises: OperatorError."""
    secrets = [n for n in ("password", "passwordFile", "passwordEnv") if values.has(n)]
    if len(secrets) > 1:
        raise OperatorError(f"options {' and '.join(secrets)}: give one of them")
    if values.has("tls.keyFile") and not values.has("tls.certFile"):
        raise OperatorError("option tls.keyFile needs tls.certFile, the certificate it belongs to")
    url = parse_url(values.text("url", "amqp://localhost"))
    if any(name.startswith("tls.") for name in values.names()) and not url.tls:
        raise OperatorError("options tls.* need an amqps:// url; this one is amqp://")
    if values.has("username"):
        url = replace(url, user=values.text("username"))
    if values.has("password"):
        url = replace(url, password=values.text("password"))
    return Endpoint(
        url,
        values.text("passwordFile"),
        values.text("passwordEnv"),
        values.text("tls.caFile"),
        values.text("tls.certFile"),
        values.text("tls.keyFile"),
        values.time_ms("reconnectTimeout", 0, TRIGGER_DELAY_MS_MAX, 60_000),
        Labels(query=values.text("queryName")),
    )


def labelled(endpoint: Endpoint, application: str) -> Endpoint:
    """`endpoint` for a query of `application`."""
    return replace(endpoint, labels=replace(endpoint.labels, application=application))
