"""Data model, without I/O or policy code."""
