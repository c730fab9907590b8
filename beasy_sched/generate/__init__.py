"""Makers of Batsim inputs: platforms, workloads, power events."""
