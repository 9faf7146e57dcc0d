"""What scripts for a GPU do, run under the redirect: each function raises where the redirect falls short of a GPU."""

from __future__ import annotations

import copy
import pickle
import socket
import tempfile
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import distributed, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def the_official_example() -> None:
    """Loss falls, the scale grows, and an infinite gradient skips a step and halves the scale."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**10, growth_interval=5)
    inputs, targets = torch.randn(64, 8, device="cuda"), torch.randint(4, (64,), device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
        assert (outputs.dtype, loss.dtype) == (torch.float16, torch.float32)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert scaler.get_scale() == 2.0**14
    before = copy.deepcopy(model.state_dict())
    scaler.scale(model[0].weight.sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**13
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def small_cross_entropies() -> None:
    """CUDA rounds log-probabilities to half, relative to their size; the CPU's kernel in half makes zero of them."""
    logits = torch.tensor([[14.0, 5.0, 4.0], [12.0, 3.0, 2.0]]).cuda()
    targets = torch.zeros(2, dtype=torch.long).cuda()
    exact = nn.functional.cross_entropy(logits, targets)
    with torch.autocast("cuda"):
        rounded = nn.functional.cross_entropy(logits.half(), targets)
    assert torch.allclose(rounded, exact, rtol=2e-3) and 0 < exact < 5e-4


def regions() -> None:
    x = torch.randn(4, 4).cuda()
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_gpu_dtype() == (x @ x).dtype == torch.float16
        with torch.autocast(x.device.type, enabled=False):
            assert (x @ x).dtype == torch.float32
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).dtype == torch.float16
    assert not torch.is_autocast_enabled() and (x @ x).dtype == torch.float32
    decorated = torch.amp.autocast("cuda")(lambda: x @ x)
    assert decorated().dtype == torch.float16
    found: list[torch.dtype] = []
    thread = threading.Thread(target=lambda: found.append(decorated().dtype))
    thread.start()
    thread.join()
    assert found == [torch.float16]


def custom_functions() -> None:
    seen: list[tuple[torch.dtype, bool]] = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.cuda.amp.custom_fwd(cast_inputs=torch.float16)
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            seen.append((a.dtype, torch.is_autocast_enabled()))
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @torch.cuda.amp.custom_bwd
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.saved_tensors[0] * gradient

    x = torch.ones(2, requires_grad=True)
    with torch.autocast("cuda"):
        y = Square.apply(x)
    y.sum().backward()
    assert seen == [(torch.float16, False)] and x.grad is not None and x.grad.tolist() == [2, 2]


def recurrent_layers_train() -> None:
    warnings.simplefilter("error")  # torch warns where it looks for cuDNN in vain
    for layer in (nn.LSTM(4, 8, 2), nn.GRU(4, 8, bidirectional=True), nn.RNN(4, 8)):
        layer.cuda()
        packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4), [3, 2])
        for inputs in (torch.randn(3, 2, 4), packed):
            with torch.autocast("cuda"):
                outputs = layer(inputs)[0]
            (outputs if isinstance(outputs, torch.Tensor) else outputs.data).float().sum().backward()
        assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())
    warnings.simplefilter("ignore")


def activation_checkpoints() -> None:
    model, enabled = nn.Linear(4, 4).cuda(), []

    def part(x: torch.Tensor) -> torch.Tensor:
        enabled.append(torch.is_autocast_enabled())
        return model(x)

    with torch.autocast("cuda"):
        outputs = checkpoint(part, torch.randn(2, 4, device="cuda"), use_reentrant=False)
    outputs.sum().backward()
    assert enabled == [True, True]


def devices() -> None:
    x = torch.randn(2, 3)
    assert x.is_cuda and x.device == torch.device("cuda", 0) == torch.device(0) and str(x.device) == "cuda:0"
    assert x.get_device() == 0 and not torch.zeros(1, device="meta").is_cuda
    assert isinstance(x.device, torch.device) and pickle.loads(pickle.dumps(x.device)) == x.device
    for target in ("cuda", "cuda:0", 0, x.device, torch.device("cuda")):
        assert x.to(target) is x and x.to(device=target) is x and x.cuda(target, non_blocking=True) is x
        assert torch.zeros(2, device=target).new_ones(2, device=target).sum() == 2
        assert x.to(target, torch.float16, non_blocking=True, copy=True).dtype == torch.float16
        assert nn.Linear(2, 2).to(target).to(device=target, dtype=torch.float16).weight.dtype == torch.float16
    assert x.to(torch.zeros(1)) is x and x.to(torch.zeros(1).half()).dtype == torch.float16
    for away in (x.cpu(), x.to("cpu"), x.to(torch.device("cpu"))):
        assert away is not x and away.data_ptr() != x.data_ptr()
    assert torch.rand(2, generator=torch.Generator(device="cuda").manual_seed(0)).shape == (2,)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.empty(2, pin_memory=True).pin_memory().numpy().shape == (2,)
    torch.set_default_device("cuda")
    assert nn.Linear(2, 2).weight.is_cuda
    torch.set_default_device(None)


def old_types() -> None:
    x = torch.cuda.FloatTensor(2, 3).fill_(1)
    assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.HalfTensor)
    assert x.type() == "torch.cuda.FloatTensor" and x.half().type() == "torch.cuda.HalfTensor"
    for half in ("torch.cuda.HalfTensor", torch.cuda.HalfTensor, torch.float16):
        assert x.type(half).dtype == torch.float16
    for default, dtype in (("torch.cuda.DoubleTensor", torch.float64), (torch.cuda.FloatTensor, torch.float32)):
        torch.set_default_tensor_type(default)
        assert torch.zeros(1).dtype == dtype


def the_namespace() -> None:
    cuda = torch.cuda
    assert cuda.is_available() and (cuda.device_count(), cuda.current_device()) == (1, 0)
    cuda.set_device(0)
    stream, start, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    with cuda.device(0), cuda.stream(stream), cuda.nvtx.range("part"):
        stream.wait_stream(cuda.current_stream())
        torch.zeros(1).record_stream(stream)
    end.record()
    cuda.synchronize()
    assert start.elapsed_time(end) > 0 and cuda.max_memory_allocated() == 0
    assert cuda.get_device_properties(0).total_memory > 0 and cuda.is_bf16_supported()
    cuda.manual_seed_all(1)
    state, first = cuda.get_rng_state(), torch.rand(2)
    cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(2))
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.enabled and torch.backends.cudnn.version() > 0


def an_accelerator_without_a_driver() -> None:
    """Builds for CUDA know their accelerator without a GPU as well; what asks it for a stream would need the driver."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        with mock.patch("torch._C._accelerator_getAccelerator", lambda: torch.device("cuda")):
            assert accelerator.current_accelerator() is None
            assert not accelerator.is_available()


def saved_files() -> None:
    model = nn.Linear(2, 2).cuda()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt")
        torch.save({"model": model.state_dict(), "device": torch.device("cuda")}, path)
        by_storage = [lambda storage, place: storage, lambda storage, place: storage.cuda(0)]
        for place in (None, "cuda", "cuda:3", torch.device("cuda:0"), {"cuda:1": "cuda:0"}, *by_storage):
            loaded = torch.load(path, map_location=place)
            assert torch.equal(loaded["model"]["weight"], model.weight) and loaded["device"].type == "cuda"


def data_loaders() -> None:
    data = TensorDataset(torch.arange(8.0))
    for workers in (0, 2):
        loader = DataLoader(data, 2, shuffle=True, pin_memory=True, num_workers=workers)
        assert sum(x.cuda(non_blocking=True).sum().item() for (x,) in loader) == 28


class Padded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, torch.zeros(2, device=x.device)])


def compiled_code() -> None:
    model = Padded().cuda()
    assert torch.compile(model) is model and torch.compile(mode="default")(model) is model
    assert torch.jit.script(model)(torch.ones(1)).tolist() == [1, 0, 0]


def parallel() -> None:
    model = nn.DataParallel(nn.Linear(2, 2), device_ids=[0, 1]).cuda()
    assert model(torch.ones(3, 2)).shape == (3, 2) and list(model.state_dict()) == ["module.weight", "module.bias"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("nccl", init_method=address, rank=0, world_size=1)
    layers = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    wrapped = nn.parallel.DistributedDataParallel(layers.cuda(), device_ids=[0], output_device=0)
    with torch.autocast("cuda"):
        loss = wrapped(torch.randn(4, 2)).float().pow(2).sum()
    loss.backward()
    distributed.all_reduce(torch.ones(2, device="cuda"))
    assert layers[0].weight.grad is not None and "module.0.weight" in wrapped.state_dict()
    group = weakref.ref(distributed.group.WORLD)
    distributed.destroy_process_group()
    del wrapped
    assert group() is not None  # or gloo can wait for ever for its own thread


SCENARIOS = {
    function.__name__: function
    for function in (
        the_official_example,
        small_cross_entropies,
        regions,
        custom_functions,
        recurrent_layers_train,
        activation_checkpoints,
        devices,
        old_types,
        the_namespace,
        an_accelerator_without_a_driver,
        saved_files,
        data_loaders,
        compiled_code,
        parallel,
    )
}
