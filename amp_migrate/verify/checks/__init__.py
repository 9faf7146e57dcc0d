"""The verdict's checks, one file each, in the order in which they decide.

Each takes the runs and gives lines; none of them runs anything.
"""
