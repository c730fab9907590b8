"""Learned compensation (Chapter 5 of the thesis): its evaluation, claims and figures."""
