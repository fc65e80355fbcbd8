"""The formats of the metadata database: what each added to the one before.

A format that was released never changes: another step is added, and a file written by the old one
goes to tests/fixtures. `arguments`: an AMQP table or empty; `identity`: see routing/canonical.
"""

from typing import Final

APPLICATION_ID: Final = 0x504E5354
FORMAT: Final = 1

_FIRST: Final = (
    "CREATE TABLE vhosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "password_hash TEXT NOT NULL, hashing TEXT NOT NULL, tags TEXT NOT NULL)",
    "CREATE TABLE exchanges (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, name TEXT NOT NULL, "
    "kind TEXT NOT NULL, is_auto_delete INTEGER NOT NULL, is_internal INTEGER NOT NULL, "
    "arguments BLOB NOT NULL, UNIQUE (vhost, name))",
    "CREATE TABLE queues (id INTEGER PRIMARY KEY AUTOINCREMENT, vhost TEXT NOT NULL, "
    "name TEXT NOT NULL, is_auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL, "
    "UNIQUE (vhost, name))",
    "CREATE TABLE bindings (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, source TEXT NOT NULL, "
    "is_to_exchange INTEGER NOT NULL, destination TEXT NOT NULL, routing_key TEXT NOT NULL, "
    "identity BLOB NOT NULL, arguments BLOB NOT NULL, "
    "UNIQUE (vhost, source, is_to_exchange, destination, routing_key, identity))",
    "CREATE INDEX bindings_to ON bindings (vhost, is_to_exchange, destination)",
    "CREATE TABLE parameters (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, "
    "component TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "UNIQUE (vhost, component, name))",
)

MIGRATIONS: Final = {0: _FIRST}
"""From a format to the next: statements of one transaction."""
