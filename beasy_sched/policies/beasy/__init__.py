"""BEASY, battery-aware EASY backfilling (the BEASY paper, Section IV)."""
