"""Studies: the papers' evaluations repeated, and the comparison of all policies. No part of the package."""
