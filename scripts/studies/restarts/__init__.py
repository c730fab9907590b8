"""Effect of killed jobs that come back on the comparison of policies."""
