"""The version, stated once."""

__version__ = "1.1.0"
