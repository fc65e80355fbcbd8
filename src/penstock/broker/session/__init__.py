"""The handshake, access, and the methods of a client turned into calls."""
