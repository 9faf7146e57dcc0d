"""`amp-migrate judge`: is a migration that somebody else made the same program, and is its native AMP right?

trees       the two sides: files, folders, or a revision and the work tree
programs    which changed files are judged, and which of them together
made_up     names of native AMP that torch does not have
judgement   what came of it
judging     the proof and the checks of native AMP, side by side
"""
