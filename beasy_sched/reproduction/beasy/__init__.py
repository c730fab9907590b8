"""The evaluation of the BEASY paper (Section V)."""
