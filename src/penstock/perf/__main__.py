"""`python -m penstock.perf`: the load tool without the rest of the command line."""

from penstock.perf.main import command

if __name__ == "__main__":
    command(prog_name="penstock perf")
