"""`python -m penstock.cli.broker_child FD`: the broker of a node that leads, started by its member.

No command for people: it reads what to do from the descriptor (server/cluster/pipe)."""

import sys

from penstock.cli.token_maker import token_maker
from penstock.server.cluster.child import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), token_maker))
