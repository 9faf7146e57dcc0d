"""Training programs drawn at random, migrated, and run: what is written may raise nothing that the original does not.

`python -m tests.drawn` runs a campaign. The programs run on the CPU under CUDA's policy for autocast
(`amp_migrate/verify/redirect/`).
"""
