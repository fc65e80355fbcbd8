"""Messages out of memory on to the disk, and back before they are due.

In it: one pager for each queue, reads in advance, and the emulation of RabbitMQ's paging.
Enters: the targets of memory that node/ sets, and messages of queues that are too large.
Leaves: batches for the store, requests to read, and messages back in their queue.
Begin with: pager.
"""
