"""Plug-ins: what is built around the scheduler and can be removed, a folder each."""
