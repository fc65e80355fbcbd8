"""Makes the tables: input to bronze, bronze to silver, silver to gold, gold to a report.

In it: the Spark job, the same tables in memory without Spark, sketches of percentiles.
Enters: what is new in a directory or a stream of events.
Leaves: gold tables, and about.json, which says what they were made of.
Begin with: pipeline.
"""
