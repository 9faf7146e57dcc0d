"""`apex.contrib`, of which the stand-in has the optimizers only."""

from . import optimizers

__all__ = ["optimizers"]
