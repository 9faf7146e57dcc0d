"""`apex.amp` as it behaves at opt_level O0 with a loss scale of 1."""

import contextlib


class _LossScaler:
    _loss_scale = 1.0

    def loss_scale(self):
        return self._loss_scale


class _State:
    loss_scalers = [_LossScaler()]


_amp_state = _State()


def initialize(models, optimizers=None, enabled=True, opt_level="O1", num_losses=1, **overrides):
    _amp_state.loss_scalers = [_LossScaler() for _ in range(num_losses)]
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(loss, optimizers, loss_id=0, model=None, delay_unscale=False, delay_overflow_check=False):
    yield loss


def master_params(optimizer):
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination=None):
    return {f"loss_scaler{i}": {"loss_scale": 1.0, "unskipped": 0} for i in range(len(_amp_state.loss_scalers))}


def load_state_dict(state):
    pass


disable_casts = contextlib.nullcontext


def half_function(function):
    return function


float_function = promote_function = half_function


def register_half_function(module, name):
    pass


register_float_function = register_promote_function = register_half_function
