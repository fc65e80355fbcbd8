"""`penstock sweep`: thousands of simulated runs, kept in a table, seen as surfaces and fronts."""
