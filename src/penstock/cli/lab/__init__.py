"""`penstock lab`: the command, its tables, plots and files, and the runs against a live broker."""
