"""Evaluation of risk limits: windows of held-out real weather, policies, and limits."""
