"""What a run leaves behind: energy trace, decision log, recording, summary."""
