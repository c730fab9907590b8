"""Common code of BEASY and the policies that follow a plan."""
