"""What things are: no I/O, no policy."""
