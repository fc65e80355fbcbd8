"""One module for each resource of the HTTP API, found by its address."""
