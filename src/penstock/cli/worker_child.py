"""`python -m penstock.cli.worker_child FD`: one of the brokers of `penstock serve --cores N`.

No command for people: it reads what to do from the descriptor (server/workers/pipe)."""

import sys

from penstock.cli.token_maker import token_maker
from penstock.server.workers.child import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), token_maker))
