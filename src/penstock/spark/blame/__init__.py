"""Who held whom, and the root causes."""
