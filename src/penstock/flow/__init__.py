"""Floor 2: gates, hops, accounts and the strategies that open and close them."""
