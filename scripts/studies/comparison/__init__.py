"""All policies on the same executions, and an upper bound."""
