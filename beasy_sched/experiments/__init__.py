"""Studies: scenarios, campaigns of many runs, and the tables and claims of the papers."""
