"""Output files of a run: energy trace, decision log, recording, summary."""
