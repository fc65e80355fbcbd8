"""`python -m penstock.cli.shard_child FD`: a member of a node with several (`serve --cores N`).

No command for people: it reads what to do from the descriptor (server/shards/pipe)."""

import sys

from penstock.server.shards.child import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
