"""`python -m penstock.simulation`: the same as penstock.simulation.main."""

from penstock.simulation.main import main

main()
