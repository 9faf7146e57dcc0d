"""The Apex stand-in keeps Apex's documented behaviour; tests/against_apex.py compares it with the real one."""

import importlib
import json
import subprocess
import sys

import pytest
import torch
from torch import nn


@pytest.fixture
def amp(apex):
    """amp as after import; O1's patches of torch are undone after the test."""
    state = apex.amp._amp_state
    yield apex.amp
    if hasattr(state, "handle"):
        state.handle._deactivate()
    state.__dict__.clear()
    state.__init__()


def model_and_sgd(lr=0.5):
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr)


def scaler_of(amp, index=0):
    return amp._amp_state.loss_scalers[index]


def backward(amp, model, optimizer, inputs, **options):
    with amp.scale_loss(model(torch.tensor([inputs])).sum(), optimizer, **options) as scaled:
        scaled.backward()


INF = float("inf")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"opt_level": "01"}, RuntimeError),
        ({"opt_level": "o1"}, RuntimeError),
        ({"opt_level": None}, RuntimeError),
        ({"opt_level": "O1", "keep_batchnorm_fp32": False}, RuntimeError),
        ({"opt_level": "O1", "master_weights": False}, RuntimeError),
        ({"opt_level": "O1", "cast_model_type": torch.float16}, RuntimeError),
        ({"opt_level": "O2", "patch_torch_functions": True}, RuntimeError),
        ({"opt_level": "O2", "keep_batchnorm_fp32": "yes"}, AssertionError),
        ({"opt_level": "O2", "loss_scale": "big"}, ValueError),
    ],
)
def test_options_that_do_not_fit_are_refused(amp, options, error):
    with pytest.raises(error):
        amp.initialize(*model_and_sgd(), **options)


@pytest.mark.parametrize(
    ("level", "options", "expected"),
    [
        ("O0", {}, (torch.float32, False, None, False, 1.0)),
        ("O1", {}, (None, True, None, None, "dynamic")),
        ("O2", {}, (torch.float16, False, True, True, "dynamic")),
        ("O3", {}, (torch.float16, False, False, False, 1.0)),
        ("O1", {"loss_scale": "128.0"}, (None, True, None, None, 128.0)),
        ("O2", {"keep_batchnorm_fp32": "False", "loss_scale": True}, (torch.float16, False, False, True, 1.0)),
    ],
)
def test_levels_and_overrides(amp, level, options, expected):
    amp.initialize(*model_and_sgd(), opt_level=level, **options)
    found = amp._amp_state.opt_properties
    names = ("cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights", "loss_scale")
    assert tuple(getattr(found, name) for name in names) == expected


def test_models_and_optimizers_that_do_not_fit_are_refused(amp, apex):
    model, optimizer = model_and_sgd()
    with pytest.raises(TypeError):
        amp.initialize(model, (optimizer,), opt_level="O0")
    with pytest.raises(TypeError):
        amp.initialize((model,), optimizer, opt_level="O0")
    with pytest.raises(RuntimeError, match="DataParallel"):
        amp.initialize(nn.DataParallel(model), optimizer, opt_level="O0")
    with pytest.raises(RuntimeError, match="fp16"):
        amp.initialize(nn.Linear(2, 2).half(), optimizer, opt_level="O0")
    with pytest.raises(RuntimeError, match="FP16_Optimizer"):
        amp.initialize(model, [apex.fp16_utils.FP16_Optimizer(optimizer)], opt_level="O0")
    amp.initialize(model, optimizer, opt_level="O0")
    with pytest.raises(RuntimeError, match="once"):
        amp.initialize(model, optimizer, opt_level="O0")


def test_return_shapes(amp):
    def run(models, *optimizers, **options):
        return amp.initialize(models, *optimizers, opt_level="O0", **options)

    model, optimizer = model_and_sgd()
    assert run(model) is model
    assert run([model]) == [model]
    assert run(model, []) == (model, [])
    assert run(model, optimizer) == (model, optimizer)
    assert run([model], [model_and_sgd()[1]])[0] == [model]
    assert run(model, optimizer, enabled=False) == (model, optimizer)
    assert run(model, enabled=False) is model


def test_scale_loss_needs_initialize_and_does_nothing_when_disabled(amp):
    model, optimizer = model_and_sgd()
    with pytest.raises(RuntimeError), amp.scale_loss(torch.tensor(1.0), optimizer):
        pass
    amp.initialize(model, optimizer, enabled=False)
    loss = torch.tensor(1.0)
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss


def test_gradients_are_scaled_inside_and_unscaled_after(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic")
    with amp.scale_loss(model(torch.tensor([[1.0, 3.0]])).sum(), optimizer) as scaled:
        assert scaled.item() == 4 * 65536
        scaled.backward()
        assert model.weight.grad.tolist() == [[65536.0, 3 * 65536.0]]
    assert model.weight.grad.tolist() == [[1.0, 3.0]]


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
def test_an_overflow_skips_one_step_and_halves_the_scale(amp, level):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level=level, loss_scale="dynamic")
    before = model.weight.tolist()
    step = optimizer.step
    backward(amp, model, optimizer, [INF, 1.0])
    assert scaler_of(amp).loss_scale() == 32768.0 and scaler_of(amp)._unskipped == 0
    assert optimizer._amp_stash.already_patched
    assert optimizer.step() is None and model.weight.tolist() == before
    assert optimizer.step == step and not optimizer._amp_stash.already_patched

    optimizer.zero_grad()
    backward(amp, model, optimizer, [1.0, 1.0])
    optimizer.step()
    assert model.weight.tolist() == [[0.5, 0.5]] and scaler_of(amp)._unskipped == 1


def test_an_overflow_skips_every_listed_optimizer(amp):
    model, first = model_and_sgd()
    other = nn.Linear(2, 1, bias=False)
    second = torch.optim.SGD(other.parameters(), 0.5)
    amp.initialize([model, other], [first, second], opt_level="O0", loss_scale="dynamic")
    before = other.weight.tolist()
    loss = model(torch.tensor([[INF, 1.0]])).sum() + other(torch.ones(1, 2)).sum()
    with amp.scale_loss(loss, [first, second]) as scaled:
        scaled.backward()
    second.step()
    assert other.weight.tolist() == before
    with pytest.raises(RuntimeError, match="closure"):
        first.step(lambda: None)


def test_a_static_scale_never_skips(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale=128.0)
    backward(amp, model, optimizer, [INF, 1.0])
    optimizer.step()
    assert model.weight.tolist() == [[-INF, 0.5]] and scaler_of(amp).loss_scale() == 128.0


def test_delay_overflow_check_leaves_scale_and_step_alone(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic")
    backward(amp, model, optimizer, [INF, 1.0], delay_overflow_check=True)
    assert scaler_of(amp).loss_scale() == 65536.0 and not optimizer._amp_stash.already_patched


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("delay", [False, True])
def test_gradients_of_two_backwards_add_up(amp, level, delay):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level=level, loss_scale="dynamic")
    scaler_of(amp)._loss_scale = 1024.0  # 65536 does not fit into fp16
    backward(amp, model, optimizer, [1.0, 2.0], delay_unscale=delay)
    backward(amp, model, optimizer, [3.0, 5.0])
    (param,) = amp.master_params(optimizer)
    assert param.grad.tolist() == [[4.0, 7.0]]
    assert scaler_of(amp)._unskipped == (1 if delay else 2)


def test_two_losses_have_scales_of_their_own(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic", num_losses=2)
    backward(amp, model, optimizer, [INF, 1.0], loss_id=1)
    optimizer.step()
    assert [scaler_of(amp, index).loss_scale() for index in range(2)] == [65536.0, 32768.0]


def test_the_scale_grows_and_has_bounds(apex):
    scaler = apex.amp.scaler.LossScaler(
        "dynamic", init_scale=4.0, scale_window=2, min_loss_scale=3.0, max_loss_scale=8.0
    )
    seen = []
    for overflow in (False, False, False, False, True, True):
        scaler._has_overflow = overflow
        seen.append((scaler.update_scale(), scaler.loss_scale()))
    assert seen == [(False, 4.0), (False, 8.0), (False, 8.0), (False, 8.0), (True, 4.0), (True, 3.0)]


def test_state_dict_round_trip(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic", num_losses=2)
    backward(amp, model, optimizer, [INF, 1.0])
    backward(amp, model, optimizer, [1.0, 1.0], loss_id=1)
    saved = amp.state_dict()
    assert saved == {
        "loss_scaler0": {"loss_scale": 32768.0, "unskipped": 0},
        "loss_scaler1": {"loss_scale": 65536.0, "unskipped": 1},
    }
    amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic", num_losses=2)
    amp.load_state_dict(saved)
    assert amp.state_dict() == saved
    amp.initialize(*model_and_sgd(), opt_level="O0", loss_scale="dynamic")
    amp.load_state_dict(saved)  # the second entry is left out
    with pytest.raises(RuntimeError, match="other"):
        amp.load_state_dict({"other": 1, "loss_scaler0": {"loss_scale": 4.0, "unskipped": 0}})
    assert scaler_of(amp).loss_scale() == 4.0


def test_o2_weights_are_half_and_masters_float(amp):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), 2.0**-14, momentum=0.9)
    amp.initialize(model, optimizer, opt_level="O2", loss_scale=1024.0)
    assert model[0].weight.dtype == torch.float16 and model[1].weight.dtype == torch.float32
    assert optimizer.param_groups[0]["params"][0] is model[0].weight  # masters come with the first use
    assert {entry.dtype for entry in model.state_dict().values()} == {torch.float32, torch.int64}

    output = model(torch.randn(4, 2))
    assert output.dtype == torch.float32
    with amp.scale_loss(output[:, 0].sum() + model[0].weight.float().sum(), optimizer) as scaled:
        scaled.backward()
    masters = list(amp.master_params(optimizer))
    assert {param.dtype for param in masters} == {torch.float32}
    assert masters[0] is not model[0].weight and masters[2] is model[1].weight
    start = masters[0].detach().clone()
    optimizer.step()
    assert not torch.equal(masters[0], start)  # a step too small for fp16 is kept in the master
    assert torch.equal(model[0].weight, masters[0].half()) and masters[0].grad is None
    with pytest.raises(TypeError):
        optimizer.zero_grad(set_to_none=True)
    with pytest.raises(RuntimeError, match="closure"):
        optimizer.step(lambda: None)


def test_o2_groups_added_later_get_masters(amp):
    model, optimizer = amp.initialize(*model_and_sgd(), opt_level="O2")
    late = nn.Parameter(torch.ones(2, dtype=torch.float16))
    optimizer.add_param_group({"params": late})
    assert optimizer.param_groups[1]["params"][0].dtype == torch.float32
    assert optimizer._amp_stash.all_fp16_params == [model.weight, late]


def test_cast_model_outputs_reaches_into_containers(amp):
    class Pair(nn.Linear):
        def forward(self, x):
            return {"out": [super().forward(x), "text"]}

    model = amp.initialize(Pair(2, 1), opt_level="O0", cast_model_outputs=torch.float64)
    assert model(torch.ones(1, 2))["out"][0].dtype == torch.float64


def test_larc_goes_through_initialize_and_bounds_the_rate(amp, apex):
    from apex.parallel.LARC import LARC

    model, sgd = model_and_sgd(lr=0.5)
    model, optimizer = amp.initialize(model, LARC(sgd, trust_coefficient=0.1), opt_level="O0", loss_scale="dynamic")
    backward(amp, model, optimizer, [1.0, 1.0])
    optimizer.step()
    # |p| = |grad|, so the local rate is the trust coefficient
    assert model.weight.tolist() == [[pytest.approx(0.9), pytest.approx(0.9)]]


def test_old_handle_scales_each_loss_and_skips(amp):
    handle = amp.init()
    model, sgd = model_and_sgd()
    optimizer = handle.wrap_optimizer(sgd, num_loss=2)
    with pytest.raises(RuntimeError), handle.scale_loss(torch.tensor(1.0), sgd):
        pass

    def run(*batches):
        optimizer.zero_grad()
        for inputs in batches:
            with optimizer.scale_loss(model(torch.tensor([inputs])).sum()) as scaled:
                scaled.backward()

    run([1.0, 0.0], [0.0, 1.0])
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
    optimizer.step()
    assert model.weight.tolist() == [[0.5, 0.5]]
    run([INF, 0.0], [0.0, 1.0])
    optimizer.step()
    assert model.weight.tolist() == [[0.5, 0.5]]
    assert [scaler.loss_scale() for scaler in optimizer._loss_scaler] == [32768.0, 65536.0]
    assert optimizer.param_groups is sgd.param_groups
    with pytest.raises(NotImplementedError):
        optimizer.step(lambda: None)


def test_old_handle_scales_losses_by_itself_until_it_wraps_an_optimizer(amp):
    handle = amp.init(loss_scale="dynamic")
    model, sgd = model_and_sgd()
    for inputs, weights in (([1.0, 3.0], [0.5, -0.5]), ([INF, 0.0], [0.5, -0.5]), ([1.0, 0.0], [0.0, -0.5])):
        sgd.zero_grad()
        with handle.scale_loss(model(torch.tensor([inputs])).sum(), sgd) as scaled:
            scaled.backward()
        sgd.step()
        assert model.weight.tolist() == [weights]
    assert handle._default_scaler.loss_scale() == 32768.0
    handle.wrap_optimizer(sgd)
    with pytest.raises(RuntimeError, match="wrap_optimizer"), handle.scale_loss(torch.tensor(1.0), sgd):
        pass


def test_a_disabled_handle_changes_nothing(amp):
    handle = amp.init(enabled=False)
    model, sgd = model_and_sgd()
    loss = model(torch.ones(1, 2)).sum()
    with handle.scale_loss(loss, sgd) as same, handle.wrap_optimizer(sgd).scale_loss(loss) as too:
        assert same is loss and too is loss and not handle.is_active()


def fp16_model_and_optimizer(apex, **options):
    model, _ = model_and_sgd()
    model = apex.fp16_utils.network_to_half(model)
    sgd = torch.optim.SGD(model.parameters(), 0.5)
    return model, apex.fp16_utils.FP16_Optimizer(sgd, **options)


def test_fp16_optimizer_unscales_clips_and_steps(apex):
    model, optimizer = fp16_model_and_optimizer(apex, static_loss_scale=64.0)
    optimizer.backward(model(torch.tensor([[3.0, 4.0]])).sum())
    (master,) = optimizer.param_groups[0]["params"]
    assert master.dtype == torch.float32 and master.grad.tolist() == [[3.0, 4.0]]
    assert float(optimizer.clip_master_grads(1.0)) == pytest.approx(5.0)
    optimizer.step()
    assert model[1].weight.tolist() == [[pytest.approx(0.7, abs=1e-3), pytest.approx(0.6, abs=1e-3)]]
    optimizer.zero_grad(set_grads_to_None=True)
    assert master.grad is None and model[1].weight.grad is None


def test_fp16_optimizer_skips_and_saves(apex):
    model, optimizer = fp16_model_and_optimizer(apex, dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 8.0})
    optimizer.backward(model(torch.tensor([[INF, 1.0]])).sum())
    assert optimizer.overflow and optimizer.loss_scale == 4.0
    assert optimizer.clip_master_grads(1.0) == -1 and optimizer.inspect_master_grad_data() is None
    optimizer.step()
    assert model[1].weight.tolist() == [[1.0, 1.0]]

    with torch.no_grad():
        optimizer.param_groups[0]["params"][0].fill_(3.0)
    other = fp16_model_and_optimizer(apex, dynamic_loss_scale=True)[1]
    other.load_state_dict(optimizer.state_dict())
    assert other.loss_scale == 4.0 and other.param_groups[0]["params"][0].tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("place", ["optimizers", "contrib.optimizers"])
def test_fp16_optimizer_of_fused_optimizers_unscales_and_clips_in_step(apex, place):
    module = importlib.import_module(f"apex.{place}")
    model, _ = model_and_sgd()
    model = model.half()
    fused = module.FusedAdam(model.parameters(), lr=0.5, max_grad_norm=2**-10)
    optimizer = module.FP16_Optimizer(fused, dynamic_loss_scale=True)
    optimizer.backward(model(torch.tensor([[3.0, 4.0]]).half()).sum().float() * 2**-10)
    assert model.weight.grad.tolist() == [[3 * 64.0, 4 * 64.0]]
    optimizer.step()
    (master,) = optimizer.param_groups[0]["params"]
    assert master.grad.tolist() == [[pytest.approx(0.6 * 2**-10, rel=1e-3), pytest.approx(0.8 * 2**-10, rel=1e-3)]]
    assert model.weight.tolist() == [[0.5, 0.5]]
    optimizer.zero_grad()
    assert (model.weight.grad, master.grad) == (None, None)
    optimizer.backward(model(torch.tensor([[INF, 0.0]]).half()).sum())
    assert optimizer.step() is None
    assert (model.weight.tolist(), optimizer.loss_scale) == ([[0.5, 0.5]], 2.0**15)


@pytest.mark.parametrize("place", ["optimizers", "contrib.optimizers"])
def test_fp16_optimizer_of_fused_optimizers_doubles_its_scale_every_1000_steps(apex, place):
    module = importlib.import_module(f"apex.{place}")
    model, _ = model_and_sgd()
    model = model.half()
    fused = module.FusedAdam(model.parameters(), lr=0.0)
    optimizer = module.FP16_Optimizer(fused, dynamic_loss_scale=True)
    scales = []
    for _ in range(1001):
        scales.append(optimizer.loss_scale)
        optimizer.backward(model(torch.zeros(1, 2).half()).sum().float() * 2**-10)
        optimizer.step()
    assert (scales[0], scales[-2], scales[-1]) == (2.0**16, 2.0**16, 2.0**17)
    with pytest.raises(SystemError):
        module.FP16_Optimizer(fused, dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 64.0})


def test_fp16_optimizer_repeats_a_closure_that_overflows(apex):
    model, optimizer = fp16_model_and_optimizer(apex, dynamic_loss_scale=True)
    batches = iter([[INF, 1.0], [1.0, 1.0]])

    def closure():
        optimizer.zero_grad()
        loss = model(torch.tensor([next(batches)])).sum()
        optimizer.backward(loss)
        return loss

    optimizer.step(closure)
    assert model[1].weight.tolist() == [[0.5, 0.5]]


def test_param_lists_copy_both_ways(apex):
    tools = apex.fp16_utils
    for flat in (False, True):
        model = nn.Linear(2, 1).half()
        params, masters = tools.prep_param_lists(model, flat_master=flat)
        assert len(masters) == (1 if flat else 2) and all(master.dtype == torch.float32 for master in masters)
        model(torch.ones(1, 2).half()).sum().backward()
        tools.model_grads_to_master_grads(params, masters, flat_master=flat)
        assert all(master.grad.eq(1).all() for master in masters)
        for master in masters:
            master.data.fill_(7.0)
        tools.master_params_to_model_params(params, masters, flat_master=flat)
        assert model.weight.tolist() == [[7.0, 7.0]] and model.bias.tolist() == [7.0]


@pytest.mark.parametrize(
    ("fused", "plain"),
    [
        (lambda o, p: o.FusedAdam(p, weight_decay=0.1), lambda o, p: o.AdamW(p, weight_decay=0.1)),
        (
            lambda o, p: o.FusedAdam(p, adam_w_mode=False, weight_decay=0.1),
            lambda o, p: o.Adam(p, weight_decay=0.1),
        ),
        (
            lambda o, p: o.FusedSGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
            lambda o, p: o.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        ),
        (lambda o, p: o.FusedAdagrad(p, weight_decay=0.1), lambda o, p: o.Adagrad(p, weight_decay=0.1)),
    ],
)
def test_fused_optimizers_agree_with_torch(apex, fused, plain):
    torch.manual_seed(0)
    ours = nn.Parameter(torch.randn(5))
    theirs = nn.Parameter(ours.detach().clone())
    optimizers = [fused(apex.optimizers, [ours]), plain(torch.optim, [theirs])]
    for _ in range(5):
        grad = torch.randn(5)
        ours.grad, theirs.grad = grad.clone(), grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_lamb_and_novograd_first_steps(apex):
    """By hand, from the papers: the first Adam direction is the sign of the gradient, NovoGrad's is grad / |grad|."""
    param = nn.Parameter(torch.tensor([3.0, 4.0]))
    param.grad = torch.tensor([6.0, 8.0])
    apex.optimizers.FusedLAMB([param], lr=0.1, weight_decay=0.0, use_nvlamb=True).step()
    moved = 0.1 * 5 / 2**0.5  # |param| / |direction|
    torch.testing.assert_close(param.detach(), torch.tensor([3.0 - moved, 4.0 - moved]), rtol=1e-4, atol=0.0)

    param = nn.Parameter(torch.tensor([3.0, 4.0]))
    param.grad = torch.tensor([6.0, 8.0])
    apex.optimizers.FusedNovoGrad([param], lr=1.0, bias_correction=False, grad_averaging=False).step()
    torch.testing.assert_close(param.detach(), torch.tensor([2.4, 3.2]))


def test_normalization_keeps_the_inputs_dtype_and_mixed_the_weights(apex):
    norms = apex.normalization
    x = torch.randn(4, 6)
    torch.testing.assert_close(norms.FusedLayerNorm(6)(x), nn.LayerNorm(6)(x))
    torch.testing.assert_close(norms.FusedRMSNorm(6)(x), x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt())
    assert norms.FusedLayerNorm(6)(x.half()).dtype == torch.float16
    assert norms.MixedFusedLayerNorm(6)(x.half()).dtype == torch.float32
    assert norms.MixedFusedRMSNorm(6)(x.half()).dtype == torch.float32


def test_syncbn_conversion_keeps_everything(apex):
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, eps=1e-3))
    model(torch.randn(2, 3, 5, 5))
    x = torch.randn(2, 3, 5, 5)
    expected = model(x)
    keys = list(model.state_dict())
    converted = apex.parallel.convert_syncbn_model(model)
    assert isinstance(converted[1], apex.parallel.SyncBatchNorm) and list(converted.state_dict()) == keys
    torch.testing.assert_close(converted(x), expected)


def test_parallel_wrapper_with_one_process(apex):
    model = apex.parallel.DistributedDataParallel(nn.Linear(2, 1), delay_allreduce=True)
    model(torch.ones(1, 2)).sum().backward()
    assert model.module.weight.grad.tolist() == [[1.0, 1.0]] and next(iter(model.state_dict())) == "module.weight"


# What O1 does to an expression of fp16 tensor h, fp32 tensor f and fp32 parameter p: the dtype, or the error.
CASTS = {
    "F.linear(f, p)": "float16",
    "torch.mm(f, f)": "float16",
    "f @ f": "float16",
    "torch.bmm(f[None], f[None])": "float16",
    "F.prelu(h, p[0, 0])": "float16",
    "torch.exp(h)": "float32",
    "h.sum()": "float32",
    "h ** 2": "float32",
    "h.cpu()": "float32",
    "F.softmax(h, -1)": "float32",
    "F.gelu(h)": "float32",
    "F.layer_norm(h, (2,))": "float32",
    "F.mse_loss(h, h)": "float32",
    "torch.sigmoid(h)": "float16",
    "torch.relu(f)": "float32",
    "h.mean()": "float16",
    "h + f": "float32",
    "h + h": "float16",
    "torch.cat([h, f])": "float32",
    "torch.add(h, f.double())": "NotImplementedError",
    "h.clone().add_(f)": "float16",
    "h.clone().exp_()": "NotImplementedError",
    "torch.exp_(h.clone())": "NotImplementedError",
    "F.binary_cross_entropy(h, h)": "NotImplementedError",
    "F.binary_cross_entropy(f, f)": "float32",
    "nn.LSTM(2, 2).cuda()(h[None])[0]": "float16",
    "nn.GRUCell(2, 2).cuda()(f)": "float16",
    "registered(h)": "float32",
    "halved(f)": "float16",
    "raised(h)": "float32",
    "promoted(h, f)": "float32",
    "without_casts()": "float32",
}
SCRIPT = """
import json, sys, types
from amp_migrate.verify import redirect, standin
redirect.install()
sys.path.insert(0, str(standin.DIRECTORY))
import torch
from torch import nn
from torch.nn import functional as F
from apex import amp
original = torch.mm
module = types.SimpleNamespace(tanh=torch.tanh)
amp.register_float_function(module, "tanh")
halved, raised = amp.half_function(torch.relu), amp.float_function(torch.relu)
promoted = amp.promote_function(torch.maximum)
f = torch.rand(2, 2).cuda()
h = f.half()
p = nn.Parameter(torch.rand(2, 2).cuda())
handle = amp.init()
def registered(x): return module.tanh(x)
def without_casts():
    with amp.disable_casts():
        return torch.mm(f, f)
def outcome(expression):
    try:
        return str(eval(expression).dtype).removeprefix("torch.")
    except Exception as error:
        return type(error).__name__
found = {expression: outcome(expression) for expression in json.loads(sys.argv[1])}
handle._clear_cache()
F.linear(f, p), F.linear(f, p)
found["cached"] = len(handle.cache)
handle._clear_cache()
with torch.no_grad():
    F.linear(f, p)
found["grad after no_grad"] = F.linear(f, p).requires_grad
handle._clear_cache()
found["cleared"] = len(handle.cache)
handle._deactivate()
found["undone"] = torch.mm is original
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def casts():
    command = [sys.executable, "-c", SCRIPT, json.dumps(list(CASTS))]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


@pytest.mark.parametrize("expression", CASTS)
def test_o1_casts(casts, expression):
    assert casts[expression] == CASTS[expression]


def test_o1_caches_parameters_and_can_be_undone(casts):
    assert {name: casts[name] for name in list(casts)[len(CASTS) :]} == {
        "cached": 1,
        "grad after no_grad": True,
        "cleared": 0,
        "undone": True,
    }
