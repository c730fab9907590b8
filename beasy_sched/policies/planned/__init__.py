"""What BEASY and the policies that follow a plan share."""
