"""Floor 7: a load tool over our own client, in the manner of PerfTest."""
