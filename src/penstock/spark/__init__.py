"""Floor 7: the data pipeline over flow event files and message traces, and the Spark connector."""

from penstock.spark.register import register as register
