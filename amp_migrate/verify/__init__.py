"""`amp-migrate verify`: run the original and the migrated script, and show whether they train the same.

Nothing here imports torch; the processes that run the scripts do (`child/`).
"""
