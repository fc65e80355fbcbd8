"""What a broker holds, in bytes: the measure of memory that is the same on every machine.

queues     messages at rest and unanswered deliveries, each with its overhead
mailboxes  messages between connections, channels and queues, and parked ones
outputs    what was written for clients and has not been taken by their sockets
"""

from penstock.broker.broker import Broker
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


def held_bytes(broker: Broker) -> int:
    """All of it. Cost: about a microsecond for each connection and queue."""
    total = 0
    messages = 0
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            total += int(queue.messages.bytes_ready + queue.unacked_bytes)
            messages += int(queue.unacked_count)
    for connection in broker.connections.values():
        total += int(connection.lot.bytes)
        output = connection.output
        total += int(output.held_bytes) + len(output.writer)
        for channel in connection.channels.values():
            lane = channel.upstream
            if lane is not None:
                total += int(lane.in_flight_bytes)
                messages += int(lane.in_flight)
            publisher = channel.publisher
            if publisher is not None:
                for hop in publisher.lanes.values():
                    total += int(hop.in_flight_bytes)
                    messages += int(hop.in_flight)
    return total + messages * MESSAGE_OVERHEAD_BYTES
