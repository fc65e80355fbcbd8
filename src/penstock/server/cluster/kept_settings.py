"""Settings that `flow set` has changed for good, kept for brokers that begin later."""

from collections.abc import Mapping

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS, KEPT_SETTINGS_BYTES


def check_room(kept: Mapping[str, str], changes: Mapping[str, str]) -> None:
    """Whether these changes, which are made already, can be kept with what is.
    Raises: OperatorError."""
    if not changes:
        return
    whole = {**kept, **changes}
    size = len(msgspec.json.encode(whole))
    full = ""
    if len(whole) > KEPT_SETTINGS.default:
        full = f"{len(kept)} settings are kept already, and {KEPT_SETTINGS.default} may be"
    elif size > KEPT_SETTINGS_BYTES.default:
        full = f"settings are kept in {KEPT_SETTINGS_BYTES.default} bytes, and it would be {size}"
    if full:
        raise OperatorError(
            f"it is done, but {full}: brokers that begin to serve later will have it from the "
            "configuration only; write it there"
        )
