"""Foreign file formats, at the border."""
