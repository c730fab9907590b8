"""Policies that choose, step by step, where a surplus or a shortage of the battery is compensated."""
