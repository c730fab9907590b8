"""Reports for people: explanations, charts, tables, metrics."""
