"""Policies side by side: on the same days, generated or the user's own, with one table; and over a year."""
