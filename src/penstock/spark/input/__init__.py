"""Files and streams of events to bronze tables."""
