"""The AMQP methods by their names, such as `methods.BasicPublish`.

In it: one row for each method of the specification, and what reads and writes them.
Enters: the payload of a method frame, or the fields of a method.
Leaves: an object with those fields, or the payload.
Begin with: table.
"""

from penstock.protocol.methods.base import Method as Method
from penstock.protocol.methods.table import *  # noqa: F403 - every row of the table
