"""Plans of power and servers: of windows and of a season, from files, and again during a run."""
