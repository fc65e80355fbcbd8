"""Faults of HTTP requests, answered as RabbitMQ's HTTP API answers them."""

from penstock.base.errors import PenstockError


class HttpFault(PenstockError):
    """status: of HTTP; error, reason: of the JSON object that is answered."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason


def bad_request(reason: str) -> HttpFault:
    """400."""
    return HttpFault(400, "bad_request", reason)


def not_authorised(reason: str) -> HttpFault:
    """401, as RabbitMQ says it also where 403 would be meant."""
    return HttpFault(401, "not_authorised", reason)


def login_failed() -> HttpFault:
    """401 for whoever is not known; RabbitMQ spells it in two ways."""
    return HttpFault(401, "not_authorized", "Login failed")


def not_found() -> HttpFault:
    """404."""
    return HttpFault(404, "Object Not Found", "Not Found")


def unavailable(reason: str) -> HttpFault:
    """503: ask again later."""
    return HttpFault(503, "service_unavailable", reason)
