"""The bounds of transactions, AMQP's own and staged ones; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

TX_MESSAGES_MAX: Final = Limit(
    "tx_messages_max",
    "publishes and settles per transaction",
    100_000,
    1,
    10_000_000,
    "broker/channel/transactions",
    "406 PRECONDITION_FAILED closes the channel",
)
TX_BYTES_MAX: Final = Limit(
    "tx_bytes_max",
    "bytes per transaction",
    134_217_728,
    0,
    4_294_967_296,
    "broker/channel/transactions",
    "406 PRECONDITION_FAILED closes the channel",
)
TRANSACTION_BYTES: Final = Limit(
    "transaction_bytes",
    "bytes that one staged transaction may reserve",
    67_108_864,
    1024,
    536_870_912,
    "broker/transaction/transaction_desk",
    "406 PRECONDITION_FAILED refuses the beginning, or the publish that does not fit",
)
TRANSACTIONS_BYTES: Final = Limit(
    "transactions_bytes",
    "bytes that all staged transactions of a broker may reserve together",
    268_435_456,
    1024,
    1_073_741_824,
    "broker/transaction/transaction_desk",
    "406 PRECONDITION_FAILED refuses the beginning of one more; nobody is kept waiting",
)
TRANSACTIONS_STAGED: Final = Limit(
    "transactions_staged",
    "staged transactions of a broker",
    4096,
    1,
    1_000_000,
    "broker/transaction/transaction_desk",
    "406 PRECONDITION_FAILED refuses the beginning of one more",
)
TRANSACTION_TTL_MS: Final = Limit(
    "transaction_ttl_ms",
    "milliseconds a transaction may live before it is committed",
    600_000,
    1000,
    86_400_000,
    "broker/transaction/transaction_desk",
    "it is rolled back, and a commit of it is refused as a whole with 404",
)
TRANSACTION_APPS: Final = Limit(
    "transaction_apps",
    "apps of a virtual host whose last batch is remembered",
    1000,
    1,
    100_000,
    "broker/transaction/transaction_desk",
    "406 PRECONDITION_FAILED refuses the first batch of one more, until one is forgotten",
)
TRANSACTION_WAITING: Final = Limit(
    "transaction_waiting",
    "commits of one app that wait for another one of it",
    16,
    1,
    1024,
    "broker/transaction/commits_behind",
    "a further one is refused (406)",
)
