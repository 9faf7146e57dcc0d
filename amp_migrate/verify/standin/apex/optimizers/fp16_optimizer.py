"""FP16_Optimizer of the fused optimizers, from the time (2018, 2019) when their kernels unscaled the gradients."""

from typing import Any

from .. import fp16_utils


class FP16_Optimizer(fp16_utils.FP16_Optimizer):  # noqa: N801 (Apex's name)
    """A cut-down twin of fp16_utils.FP16_Optimizer, which unscales, clips and looks for an overflow in `step`.

    A dynamic scale grows every 1000 steps. The clip is by `max_grad_norm` of the wrapped optimizer. What `state_dict`
    returns is in the format of the larger one; Apex's own held the masters of each group as one flat tensor.
    """

    def __init__(
        self,
        init_optimizer: Any,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        if dynamic_loss_scale and dynamic_loss_args is not None:
            raise SystemError("this class takes no arguments for its dynamic loss scale")
        super().__init__(init_optimizer, static_loss_scale, dynamic_loss_scale, {"scale_window": 1000}, verbose)

    def backward(self, loss: Any) -> None:  # type: ignore[override]
        """Run backward from the scaled fp32 loss."""
        super().backward(loss, update_master_grads=False)

    def step(self, closure: Any = None) -> Any:
        """Bring the unscaled gradients to the masters, clip and step; after an overflow do nothing and return None."""
        self.update_master_grads()
        limit = max(group.get("max_grad_norm", 0.0) for group in self.param_groups)
        if limit > 0:
            self.clip_master_grads(limit)
        return super().step(closure)

    def zero_grad(self, set_grads_to_None: bool = True) -> None:  # noqa: N803 (Apex's name)
        """Let the gradients of the masters and of the model go, or zero them."""
        super().zero_grad(set_grads_to_None)
