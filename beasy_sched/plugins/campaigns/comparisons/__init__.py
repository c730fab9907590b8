"""Comparisons of policies on the same workload and weather, generated or the user's own, and over a year."""
