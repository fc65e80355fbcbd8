"""Says who a query is: to its broker, which shows it to people.

A task knows from Spark which query it belongs to. The planner of a source does not, because Spark
does not say it there: it knows the application, and a name only where the user gives option
queryName. So tasks tell the broker what to call the group that they read.
"""

import re
import socket
import sys
from dataclasses import dataclass, replace
from typing import Final

from penstock.protocol.values import Table

QUERY_ID: Final = "sql.streaming.queryId"
APPLICATION: Final = "spark.app.name"
DESCRIPTION: Final = "spark.job.description"
_NAME_LINE: Final = re.compile(r"^id = [0-9a-f-]{36}$", re.MULTILINE)
SHORT_ID: Final = 8
NAME_CHARACTERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Labels:
    """application: Spark's name of it; query: what the user calls the query; query_id: Spark's.
    "" for what is not known."""

    application: str = ""
    query: str = ""
    query_id: str = ""

    def name(self) -> str:
        """The query, as people are to read it: `minutes (orders-app)`."""
        query = self.query or self.query_id[:SHORT_ID]
        if not query:
            return f"of {self.application}" if self.application else "of Spark"
        return f"{query} ({self.application})" if self.application else query

    def of_group(self, group: str) -> str:
        """The query that leases messages as `group`, "" for a name that was made up."""
        query = self.query or group or self.query_id[:SHORT_ID]
        return f"spark query {replace(self, query=query).name()}"

    def connection_name(self, role: str) -> str:
        """role: what the connection is for, as `source` or `task 0..99`."""
        return f"{self.name()[:NAME_CHARACTERS_MAX]}: {role}"

    def properties(self) -> Table:
        """What is known, and the host: property `spark` of the client."""
        known = {
            "query": self.query,
            "query_id": self.query_id,
            "application": self.application,
            "host": socket.gethostname(),
        }
        return {name: value for name, value in known.items() if value}


NOBODY: Final = Labels()


def in_task(labels: Labels) -> Labels:
    """`labels` with what Spark tells a task of its query; as they are in other processes."""
    # A task has it loaded, and nobody else needs to.
    module = sys.modules.get("pyspark")
    context = None if module is None else module.TaskContext.get()
    if context is None:
        return labels
    application = labels.application or context.getLocalProperty(APPLICATION) or ""
    query_id = context.getLocalProperty(QUERY_ID) or ""
    name = name_in(context.getLocalProperty(DESCRIPTION) or "") if query_id else ""
    return Labels(application, labels.query or name, labels.query_id or query_id)


def name_in(description: str) -> str:
    """The query's name in what Spark says of its jobs, "" where it has none:

    minutes
    id = 64a90328-7201-4394-aeb2-9f7b8cf48250
    runId = ...
    """
    text = description.replace("<br/>", "\n")
    found = _NAME_LINE.search(text)
    return "" if found is None else text[: found.start()].strip()
