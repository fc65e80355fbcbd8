"""Programs that look at a broker from outside: own sockets, nothing of Penstock imported."""
