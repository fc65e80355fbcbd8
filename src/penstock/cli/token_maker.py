"""Logins by token need packages that are not always installed: they are looked for here."""

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.session.tokens import is_oauth_wanted
from penstock.server.boot.node import MakeTokens


def token_maker(config: Config) -> MakeTokens | None:
    """What verifies tokens, where any are wanted. Raises: OperatorError if it is not installed."""
    if not is_oauth_wanted(config):
        return None
    try:
        from penstock.server.net.token_checker import JwtChecker
    except ImportError as error:
        raise OperatorError(
            f"[oauth] is configured and {error.name} is not installed; "
            "pip install 'penstock[oauth]'"
        ) from error
    return JwtChecker
