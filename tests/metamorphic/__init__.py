"""Programs that mean the same are migrated or left, whatever they look like: our fixtures, rewritten.

    python -m tests.metamorphic [--forms apex,half] [--rewrites loop] [--sample N --seed S] [--keep FOLDER]

A *rewrite* changes a program and not what it does. Applied to a fixture it makes a *mutant*, which is migrated. What is
asked of it: it ends, no internal error (AMP999), no exception. What the proof refuses (AMP998) is counted and named.

program.py                                      a fixture as syntax trees
rewrite.py                                      what a rewrite is; the list of all
conditions.py temporaries.py loops.py sizes.py  one family of rewrites each
scopes.py walk.py                               what they need to know about Python's scopes and blocks
outcome.py                                      what came of a mutant
campaign.py                                     many mutants in processes, with limits of time and memory
table.py                                        the table by rewrite
"""
