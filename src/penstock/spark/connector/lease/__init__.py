"""Reading queues by leases."""
