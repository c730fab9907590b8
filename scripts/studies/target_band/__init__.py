"""Gain from the band of a battery's target: a sweep of the critical cases."""
