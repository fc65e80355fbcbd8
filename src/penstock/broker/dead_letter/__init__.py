"""What a queue gives up, and messages that wait for their delay.

In it: dead-lettering from queue to queue, and the stores of delayed exchanges.
Enters: messages that a rule or a consumer has given up, and publishes with a delay.
Leaves: the same messages on their way to other queues, counted and charged.
Begin with: dead_letters.
"""
