"""All policies on the same executions, and what they could have done at best."""
