"""A run: what the user chose, the session made from it, the run in one process, and its files as tables."""
