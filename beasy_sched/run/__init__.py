"""A run: the user's settings, the session made from them, the run in one process, and its files as tables."""
