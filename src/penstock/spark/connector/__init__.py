"""Spark's data source `amqp`: queues and streams of AMQP 0-9-1 brokers in, confirmed rows out."""
