"""What is asked about the code of other modules; who reads the disk answers."""

from __future__ import annotations

from typing import Protocol


class Elsewhere(Protocol):
    """Functions and classes that a module imports, by dotted name (`.utils.log_norms`)."""

    def source_of(self, dotted: str) -> bytes | None:
        """The file that defines it, None where it is not found."""
        ...

    def use_gradients(self, dotted: str) -> bool:
        """True where it certainly reads gradients that somebody else computed."""
        ...

    def spare_gradients(self, dotted: str) -> bool:
        """True where it certainly does not look at gradients."""
        ...

    def compute_bce(self, dotted: str) -> bool:
        """True where it certainly computes a binary cross entropy outside of any autocast of its own."""
        ...


class Nowhere:
    """No other module is known."""

    def source_of(self, dotted: str) -> bytes | None:
        return None

    def use_gradients(self, dotted: str) -> bool:
        return False

    def spare_gradients(self, dotted: str) -> bool:
        return False

    def compute_bce(self, dotted: str) -> bool:
        return False
