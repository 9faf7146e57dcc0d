"""O1's casts for recurrent layers and cells, which reach torch by a name of their own.

`torch.nn.modules.rnn` calls `_VF.lstm` and its like.  `_VF` cannot be patched in place, so that module gets a
namespace with the same functions.  Parameters are cast one by one; Apex packs them into one buffer for cuDNN, which
changes speed only.  Recent versions of torch (2.x) refuse fp16 input to a layer with fp32 parameters before they get
there; that check is shown the input in the parameters' dtype, so that scripts run as they did on Apex's own torch.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.modules import rnn

from .casts import maybe_half
from .wrappers import cast_all

LAYERS = ["rnn_tanh", "rnn_relu", "gru", "lstm"]


def patch_rnns(handle: Any) -> None:
    """Cast the arguments of layers and cells to fp16; only the parameters of cells are cached, as in Apex."""
    functions = torch._C._VariableFunctions
    layers = {name: cast_all(getattr(functions, name), maybe_half, handle, caching=False) for name in LAYERS}
    cells = {
        name: cast_all(getattr(functions, name), maybe_half, handle, caching=True)
        for name in [layer + "_cell" for layer in LAYERS]
    }
    handle._patch(rnn, "_VF", SimpleNamespace(**layers, **cells))
    for name in ("rnn_tanh", "rnn_relu"):  # these two were looked up when torch was imported
        handle._patch(rnn._rnn_impls, name.upper(), layers[name])
    handle._patch(rnn.RNNBase, "check_input", _check_in_dtype_of_parameters(rnn.RNNBase.check_input))


def _check_in_dtype_of_parameters(check_input: Any) -> Any:
    def wrapper(layer: Any, input: torch.Tensor, batch_sizes: Any) -> None:
        check_input(layer, input.to(next(layer.parameters()).dtype), batch_sizes)

    return wrapper
