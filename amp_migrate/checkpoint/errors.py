"""Why a checkpoint is left as it is."""

from __future__ import annotations


class CheckpointError(Exception):
    """The file can't be read, converted or written; the message says why and what to do, in words for the user."""
