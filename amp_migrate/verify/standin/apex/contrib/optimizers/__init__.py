"""`apex.contrib.optimizers`: where the fused optimizers went that need FP16_Optimizer around them."""

from ...optimizers import FP16_Optimizer, FusedAdam, FusedLAMB, FusedSGD

__all__ = ["FP16_Optimizer", "FusedAdam", "FusedLAMB", "FusedSGD"]
