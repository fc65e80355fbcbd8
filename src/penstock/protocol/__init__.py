"""Floor 2: AMQP 0-9-1 on the wire, without sockets and in either role."""
