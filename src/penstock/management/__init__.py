"""RabbitMQ's HTTP API and metrics, in a process beside the broker and never in it.

It asks the broker over its control socket, and changes topology as the user who asks, over AMQP, so
that rights and error texts are the broker's own.

In it: the link to the broker, logins, listings, changes over AMQP, metrics, the application.
Enters: requests over HTTP.
Leaves: JSON in RabbitMQ's words, and text for Prometheus.
Begin with: process, then app.
"""
