"""`apex.optimizers`: the fused optimizers as plain torch arithmetic, with Apex's signatures and defaults.

FP16_Optimizer stood here until 2019, and scripts import it from here; later it was `apex.contrib.optimizers`.
"""

from .fp16_optimizer import FP16_Optimizer
from .fused_adagrad import FusedAdagrad
from .fused_adam import FusedAdam
from .fused_lamb import FusedLAMB
from .fused_novograd import FusedNovoGrad
from .fused_sgd import FusedSGD

__all__ = ["FP16_Optimizer", "FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedNovoGrad", "FusedSGD"]
