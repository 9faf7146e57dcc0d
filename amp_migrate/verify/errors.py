"""Why there is no comparison."""

from __future__ import annotations


class NotComparableError(Exception):
    """There is nothing to compare; the message says why, in words for the user."""


class NoTorchError(Exception):
    """torch is not installed beside amp-migrate."""
