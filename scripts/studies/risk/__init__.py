"""Whether promised risks are kept: windows of real weather that nobody has seen, policies, and promises."""
