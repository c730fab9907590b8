"""Storage devices of a site: one file each, with limits, step, part of a plan, columns, section and words."""
