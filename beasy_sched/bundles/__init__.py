"""A campaign in a folder that others can read, check and run again: an RO-Crate.

`layout` says what lies where, `writing` makes a bundle, `rerun` runs it again and compares.
"""
