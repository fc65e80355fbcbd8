"""The client processes of a run: unmodified pika, aio-pika, Celery and Spark.

In it: one program a file, and what they share: plan, clock, trace file.
Enters: the plan as a file, "go" on their input.
Leaves: numbers as JSON lines, and a trace of every message.
Begin with: part.
"""
