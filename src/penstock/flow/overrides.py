"""A profile as the configuration changes it: credit windows by kind of hop."""

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_window
from penstock.flow.credit import Window
from penstock.flow.hop import KIND_NAMES
from penstock.flow.profile import HopWindow, Profile


def configured(profile: Profile, config: Config) -> Profile:
    """`profile` with the windows of `config.credit_*`. Raises: OperatorError naming the key."""
    for kind, name in enumerate(KIND_NAMES):
        before = profile.window_of(kind)
        key = f"credit_{name}"
        messages = _override(config, key, (before.initial, before.more_after))
        bytes_key = f"{key}_bytes"
        bytes_ = _override(config, bytes_key, (before.bytes_initial, before.bytes_more_after))
        after = HopWindow(*messages, *bytes_)
        if after == before:
            continue
        if not profile.has_credit():
            raise OperatorError(
                f"{key} has no effect: profile '{profile.name}' has no credit; remove the key or "
                "choose another profile"
            )
        profile = profile.with_window(kind, after)
    return profile


def _override(config: Config, key: str, default: tuple[int, int]) -> tuple[int, int]:
    text = str(getattr(config, key))
    if text == "":
        return default
    try:
        initial, more_after = parse_window(text)
        Window(initial, more_after, "bytes" if key.endswith("_bytes") else "messages")
    except OperatorError as error:
        raise OperatorError(f"{key}: {error}") from error
    return initial, more_after
