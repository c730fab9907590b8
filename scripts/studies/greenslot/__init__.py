"""GreenSlot's paper: its cases, study, claims and figures."""
