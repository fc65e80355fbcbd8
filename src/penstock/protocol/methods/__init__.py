"""The AMQP methods by their names, such as `methods.BasicPublish`."""

from penstock.protocol.methods.base import Method as Method
from penstock.protocol.methods.table import *  # noqa: F403 - every row of the table
