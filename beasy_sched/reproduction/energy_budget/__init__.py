"""The evaluation of the energy-budget paper (Section V)."""
