"""GreenSlot (Goiri et al., SC 2011): jobs wait for the slots with the cheapest energy, and meet deadlines."""
