"""Floor 7: the data pipeline over flow event files and message traces."""
