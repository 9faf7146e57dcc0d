"""What amp does to a model: the checks, the cast of the weights, the casts around `forward`, fp32 state dicts."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ..fp16_utils.convert import convert_network


def check_models(models: list[Any], allow_half: bool) -> None:
    """Refuse wrapped models, and models that were cast by hand.

    Raises:
        RuntimeError: naming the wrapper, or the fp16 parameter or buffer.
    """
    for model in models:
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            raise RuntimeError(
                f"Incoming model is an instance of {type(model).__name__}: wrap it after amp.initialize, not before."
            )
    if not allow_half:
        for model in models:
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                if tensor.dtype == torch.float16:
                    raise RuntimeError(f"Found {name} in fp16: models come to amp.initialize in fp32.")


def cast_model(model: Any, dtype: torch.dtype, keep_batchnorm_fp32: bool | None) -> None:
    """Cast weights and buffers, and let every module's state_dict show fp32."""
    if keep_batchnorm_fp32:
        convert_network(model, dtype)
    else:
        model.to(dtype)
    for module in model.modules():
        module._register_state_dict_hook(_half_entries_to_float)


def cast_forward(model: Any, inputs: torch.dtype | None, outputs: torch.dtype) -> None:
    """Let `model.forward` cast its floating inputs (unless `inputs` is None) and its floating outputs."""
    forward = model.forward

    def cast_inputs_and_outputs(*args: Any, **kwargs: Any) -> Any:
        if inputs is not None:
            args, kwargs = cast_nested(args, inputs), cast_nested(kwargs, inputs)
        return cast_nested(forward(*args, **kwargs), outputs)

    model.forward = cast_inputs_and_outputs


def cast_nested(value: Any, dtype: torch.dtype) -> Any:
    """Cast the floating tensors in a tensor, a container of any depth, or a batch object with its own `.to`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, str) or hasattr(value, "__array__"):  # a NumPy array stays as it is
        return value
    if hasattr(value, "to"):
        return value.to(dtype)
    if isinstance(value, Mapping):
        return {cast_nested(key, dtype): cast_nested(item, dtype) for key, item in value.items()}
    if isinstance(value, Iterable):
        container: Any = type(value)
        return container(cast_nested(item, dtype) for item in value)
    return value


def _half_entries_to_float(module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
    for key, entry in state_dict.items():
        if isinstance(entry, torch.Tensor) and entry.dtype == torch.float16:
            state_dict[key] = entry.float()
