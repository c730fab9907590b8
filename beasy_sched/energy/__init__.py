"""The power side of a site: storage, sources and the balance of a step."""
