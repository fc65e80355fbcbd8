"""Publishing, consuming, settling and transactions of one channel."""
