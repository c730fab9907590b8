"""Bytes to typed messages and back; sans-I/O."""
