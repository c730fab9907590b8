"""Policies that choose at each step how a surplus or shortage of the battery is compensated."""
