"""What all readers and writers of the connector share."""
