"""The namespace torch.cuda, and what torch.backends says of cuDNN: one device that has nothing to wait for."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch

from amp_migrate.verify.redirect.streams import Event, Stream, current_stream

_CAPABILITY = (8, 0)  # the first with bfloat16
_MEMORY = 16 * 2**30  # bytes
_NAME = "CUDA redirected to the CPU"

_NOTHING = """_lazy_init synchronize set_device empty_cache ipc_collect reset_peak_memory_stats set_stream
    reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats
    set_per_process_memory_fraction""".split()
_ZERO = """current_device memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
    max_memory_cached utilization""".split()


def install() -> None:
    """Replace what of torch.cuda and torch.backends.cudnn would look for a GPU."""
    cuda: Any = torch.cuda
    for name in _NOTHING:
        setattr(cuda, name, _nothing)
    for name in _ZERO:
        setattr(cuda, name, lambda *args, **kwargs: 0)
    _describe(cuda)
    _streams(cuda)
    _random_numbers(cuda)
    _profiling(cuda)
    _cudnn(torch.backends.cudnn)
    _no_accelerator()
    version: Any = torch.version
    version.cuda = "12.0"  # read by scripts and by Apex, which splits it at the dots


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _describe(cuda: Any) -> None:
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.is_bf16_supported = lambda *args, **kwargs: True
    cuda.device_count = lambda: 1
    cuda.get_device_name = lambda device=None: _NAME
    cuda.get_device_capability = lambda device=None: _CAPABILITY
    cuda.get_device_properties = lambda device=None: SimpleNamespace(
        name=_NAME, major=_CAPABILITY[0], minor=_CAPABILITY[1], total_memory=_MEMORY, multi_processor_count=1
    )
    cuda.get_arch_list = lambda: ["sm_80"]
    cuda.mem_get_info = lambda device=None: (_MEMORY, _MEMORY)
    cuda.memory_stats = lambda device=None: {}
    cuda.memory_summary = lambda *args, **kwargs: ""
    cuda.device = cuda.device_of = contextlib.nullcontext


def _streams(cuda: Any) -> None:
    cuda.Stream = cuda.ExternalStream = Stream
    cuda.Event = Event
    cuda.stream = cuda.StreamContext = contextlib.nullcontext
    cuda.current_stream = cuda.default_stream = current_stream
    cuda.is_current_stream_capturing = lambda: False


def _random_numbers(cuda: Any) -> None:
    """CUDA's generator is the CPU's: a script that seeds only CUDA is as repeatable as it was."""
    generator = torch.default_generator
    cuda.default_generators = (generator,)
    cuda.manual_seed = cuda.manual_seed_all = generator.manual_seed
    cuda.seed = cuda.seed_all = generator.seed
    cuda.initial_seed = generator.initial_seed
    cuda.get_rng_state = lambda device=None: generator.get_state()
    cuda.get_rng_state_all = lambda: [generator.get_state()]
    cuda.set_rng_state = lambda new_state, device=None: generator.set_state(new_state)
    cuda.set_rng_state_all = lambda new_states: generator.set_state(new_states[0])


def _profiling(cuda: Any) -> None:
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(cuda.nvtx, name, _nothing)
    cuda.profiler.start = cuda.profiler.stop = _nothing
    cuda.cudart = lambda: SimpleNamespace(cudaProfilerStart=_nothing, cudaProfilerStop=_nothing)


def _no_accelerator() -> None:
    """Nothing that torch itself asks for a stream or a device index: a build for CUDA says it has one, without a driver
    too, and a build for the CPU never does. There is no such namespace before torch 2.6.
    """
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.current_accelerator = lambda check_available=False: None


def _cudnn(cudnn: Any) -> None:
    """There for a script that asks, and not for torch's recurrent layers, which warn where they miss it."""
    cudnn.is_available = lambda: True
    cudnn.version = lambda: 90000
    cudnn.is_acceptable = lambda tensor: False
