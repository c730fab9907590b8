"""Energy budgets that follow the price: what they save on weeks of jobs."""
