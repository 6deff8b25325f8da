"""Hostile input, made by machines: one target for each surface that strangers reach, two engines over all of them.

See README.md in this folder.
"""
