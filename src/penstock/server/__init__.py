"""Floor 6: the only room with sockets, files, threads and the event loop."""
