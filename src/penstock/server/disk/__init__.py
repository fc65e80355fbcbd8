"""Files, the metadata database and the disk thread."""
