"""The version, stated once."""

__version__ = "1.0.0"
