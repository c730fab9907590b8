"""The energy-budget paper: its study, claims and figures."""
