"""The management process: RabbitMQ's HTTP API, metrics and pages, beside the broker and never in
it. It asks the broker over its control socket, and changes topology as the user who asks, over
AMQP, so that rights and error texts are the broker's own."""
