"""The commands of this plug-in, a file each."""
