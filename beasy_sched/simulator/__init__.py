"""The embedded stand-in for Batsim."""
