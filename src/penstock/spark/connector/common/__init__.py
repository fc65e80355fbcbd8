"""What all readers and writers of the connector share.

In it: options, connections, decoding into columns, offsets, the plan of a batch over many queues.
Enters: options as text, deliveries as bytes.
Leaves: checked options, Arrow batches, limits of a batch.
Begin with: options.
"""
