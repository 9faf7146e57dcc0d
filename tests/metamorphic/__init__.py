"""Programs that mean the same are decided alike, whatever they look like: our fixtures, rewritten.

    python -m tests.metamorphic [--forms apex,half] [--rewrites loop] [--sample N --seed S] [--keep FOLDER]
    python -m tests.metamorphic --listed
    python -m tests.metamorphic --execute --sample 100

A *rewrite* changes a program and not what it does. Applied to a fixture it makes a *mutant*. What is decided about the
mutant is compared with what is decided about the fixture, both as Python prints them:

alike       the status, the regions and what runs in them, islands, casts, calls of the scaler, and findings by code
differs     one of these is another
weaker      a refusal is lost, or a protection and no finding says so
ended       no more is asked: the rewrite adds code of its own that may be decided about
AMP998      the proof refuses the output; AMP999, an exception, a hang: a bug

What is known to differ stands in `known.toml`, with its reason. Anything else fails the run.

program.py                   a fixture as syntax trees
rewrite.py                   what a rewrite is; the list of all
conditions.py temporaries.py loops.py sizes.py names.py imports.py identities.py moves.py dispatch.py arguments.py
files.py bystanders.py       one family of rewrites each
scopes.py walk.py            what they need to know about Python's scopes and blocks
tensors.py                   which expressions are certainly tensors
extraction.py                a piece of a block as a function of its own
decisions.py reach.py        what was decided, read from the output
outcome.py                   what came of a mutant
known.py                     the differences that are known
campaign.py                  many mutants in processes, with limits of time and memory
execution.py                 mutants that are run, to see that a rewrite keeps the meaning
table.py                     the table by rewrite
"""
