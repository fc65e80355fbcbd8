"""flow/overrides: credit windows from the configuration."""

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.flow.overrides import configured
from penstock.flow.profile import NONE, PENSTOCK, RABBITMQ_4, RABBITMQ_35, HopWindow


def test_nothing_configured_changes_nothing() -> None:
    assert configured(PENSTOCK, Config()) == PENSTOCK
    assert configured(NONE, Config()) == NONE


def test_each_kind_and_dimension_has_its_key() -> None:
    config = Config(
        credit_connection_channel="30/10",
        credit_channel_queue_bytes="2MiB/1MiB",
        credit_queue_store="off",
    )
    profile = configured(RABBITMQ_4, config)
    assert profile.connection_channel == HopWindow(30, 10)
    assert profile.channel_queue == HopWindow(400, 200, 2 << 20, 1 << 20)
    assert profile.queue_store == HopWindow(0, 0)


@pytest.mark.parametrize("text", ["10/50", "12", "0/5", "many/few"])
def test_a_bad_window_names_its_key(text: str) -> None:
    with pytest.raises(OperatorError, match=r"^credit_channel_queue: "):
        configured(PENSTOCK, Config(credit_channel_queue=text))


def test_a_window_for_a_profile_without_credit_is_refused() -> None:
    with pytest.raises(OperatorError, match="profile 'none' has no credit"):
        configured(NONE, Config(credit_channel_queue="30/10"))


def test_rabbitmqs_settings_of_paging() -> None:
    config = Config(msg_store_io_batch_size="100", queue_index_embed_msgs_below="0")
    profile = configured(RABBITMQ_4, config)
    assert (profile.io_batch, profile.embed_below) == (100, 0)
    assert profile.caps_passes and profile.pages_by_counts()
    assert configured(RABBITMQ_4, Config()) == RABBITMQ_4
    # However small its batch is, 3.5 has no cap, and 4 has one.
    assert not configured(RABBITMQ_35, Config(msg_store_io_batch_size="9000")).caps_passes


@pytest.mark.parametrize("text", ["-1", "4k", "1.5", "99999999999"])
def test_a_number_that_is_none_names_its_key(text: str) -> None:
    with pytest.raises(OperatorError, match=r"^queue_index_embed_msgs_below = .*0 to 536870912"):
        configured(RABBITMQ_4, Config(queue_index_embed_msgs_below=text))
    with pytest.raises(OperatorError, match=r"^msg_store_io_batch_size = .*1 to 1000000"):
        configured(RABBITMQ_35, Config(msg_store_io_batch_size=text))


def test_they_mean_nothing_to_a_profile_that_pages_by_bytes() -> None:
    with pytest.raises(OperatorError, match=r"'penstock' pages by bytes.*rabbitmq-4"):
        configured(PENSTOCK, Config(msg_store_io_batch_size="100"))
