"""From the handshake to the calls that methods stand for.

In it: negotiation, access, limits of users, and one function for each request of a client.
Enters: methods of a client, decoded.
Leaves: calls of vhost, channel, lease and transaction, and answers or reply codes.
Begin with: negotiate.
"""
