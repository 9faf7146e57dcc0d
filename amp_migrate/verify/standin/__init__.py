"""A stand-in for NVIDIA Apex, so that an original script runs where Apex is not installed.

The package `apex` beside this file is imported under its own name, by a process that has `DIRECTORY` on `sys.path`.
It is never imported as a part of `amp_migrate`: that would give two copies of Apex's process-wide state.
"""

from pathlib import Path

DIRECTORY = Path(__file__).parent
