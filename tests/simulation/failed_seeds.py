"""Runs that once failed: scenario, profile, seed. They are kept, and grow only."""

FAILED_SEEDS = (
    # A turn whose budget ended with its last publish left the lane listed: the channel slept.
    ("chain", "penstock", 1),
    ("chain", "rabbitmq-4", 1),
    # A later publish overtook a parked fan-out at the queues that were open.
    ("fan_out", "penstock", 2),
    ("fan_out", "penstock", 3),
    ("fan_out", "penstock", 4),
    ("fan_out", "penstock", 8),
    ("fan_out", "penstock", 9),
    ("fan_out", "penstock", 12),
    # channel.close threw the parked publish away.
    ("short_lives", "penstock", 2),
    ("short_lives", "penstock", 4),
    # A stopped publish kept the acknowledgements behind it waiting although its place was free.
    ("slow_consumer", "penstock", 2),
    # A channel that ended under an alarm took the alarm off its connection's record.
    ("random_graph", "penstock", 396),
    # Whoever stood behind a rate limit stood there for ever once the limit was taken away.
    ("random_graph", "penstock", 10),
    ("random_graph", "penstock", 15),
    # The disk answered a lane of dead letters whose queue had gone, and its target was full.
    ("kept_dead_letters", "penstock", 7000),
    # What was parked for want of credit when a depth mark was reached was never lent any room.
    ("many_senders", "penstock", 19),
    # Of a fan-out that was parked for two queues only the first was asked for room.
    ("random_graph", "penstock", 235),
)
