"""The BEASY paper (SBAC-PAD 2023): its study, claims and figures."""
