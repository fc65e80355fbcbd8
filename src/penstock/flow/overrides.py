"""A profile as the configuration changes it: credit windows by kind of hop, RabbitMQ's two settings
of paging (seed S1), and its soft limit of quorum queues (seed S3)."""

from dataclasses import replace

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import (
    RABBIT_EMBED_BELOW,
    RABBIT_IO_BATCH,
    SOFT_LIMIT,
    Limit,
)
from penstock.base.quantities import parse_window
from penstock.flow.credit import Window
from penstock.flow.hop import KIND_NAMES
from penstock.flow.profile import HopWindow, Profile


def configured(profile: Profile, config: Config) -> Profile:
    """`profile` with the windows of `config.credit_*`, and what it has of RabbitMQ's settings of
    paging. Raises: OperatorError naming the key."""
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
    if config.msg_store_io_batch_size != "":
        profile = with_io_batch(profile, config.msg_store_io_batch_size)
    if config.queue_index_embed_msgs_below != "":
        profile = with_embed_below(profile, config.queue_index_embed_msgs_below)
    if config.quorum_commands_soft_limit != "":
        profile = with_soft_limit(profile, config.quorum_commands_soft_limit)
    return profile


def with_io_batch(profile: Profile, text: str) -> Profile:
    """`profile` with another msg_store_io_batch_size. Raises: OperatorError."""
    return replace(
        profile, io_batch=_number(profile, "msg_store_io_batch_size", RABBIT_IO_BATCH, text)
    )


def with_embed_below(profile: Profile, text: str) -> Profile:
    """`profile` with another queue_index_embed_msgs_below. Raises: OperatorError."""
    return replace(
        profile,
        embed_below=_number(profile, "queue_index_embed_msgs_below", RABBIT_EMBED_BELOW, text),
    )


def with_soft_limit(profile: Profile, text: str) -> Profile:
    """`profile` with another quorum_commands_soft_limit. Raises: OperatorError."""
    return replace(profile, soft_limit=_whole("quorum_commands_soft_limit", SOFT_LIMIT, text))


def _number(profile: Profile, key: str, limit: Limit, text: str) -> int:
    if not profile.pages_by_counts():
        raise OperatorError(
            f"{key} has no effect: profile '{profile.name}' pages by bytes, and each message costs "
            "credit to the store; remove the key or choose rabbitmq-4 or rabbitmq-3.5"
        )
    return _whole(key, limit, text)


def _whole(key: str, limit: Limit, text: str) -> int:
    stripped = text.strip()
    if not stripped.isdecimal() or not limit.lowest <= int(stripped) <= limit.highest:
        raise OperatorError(
            f"{key} = {text}: must be a whole number, {limit.lowest} to {limit.highest} "
            f"{limit.unit}"
        )
    return int(stripped)


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
