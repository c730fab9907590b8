"""Bundles: a campaign in a folder that others can read, check and rerun, as an RO-Crate.

`layout` defines the content, `writing` creates a bundle, `rerun` runs it again and compares.
"""
