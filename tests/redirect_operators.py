"""The operators whose dtypes under the redirect are compared with those of torch's own CUDA dispatch.

Each is a function of `t`, which makes tensors of the dtype under test on the GPU; `r` makes float32 ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def r(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cuda")


def ids(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long, device="cuda")


Make = Callable[..., torch.Tensor]
OPERATORS: dict[str, Callable[[Make], torch.Tensor]] = {
    # matrix products
    "mm": lambda t: torch.mm(t(3, 3), t(3, 3)),
    "mm mixed": lambda t: torch.mm(t(3, 3), r(3, 3)),
    "mm double": lambda t: torch.mm(t(3, 3).double(), r(3, 3).double()),
    "mm half and double": lambda t: torch.mm(t(3, 3), r(3, 3).double()),
    "mm out": lambda t: torch.mm(t(3, 3), t(3, 3), out=t(3, 3)),
    "matmul": lambda t: t(2, 3, 3) @ t(3, 3),
    "bmm": lambda t: torch.bmm(t(2, 3, 3), t(2, 3, 3)),
    "mv": lambda t: torch.mv(t(3, 3), t(3)),
    "addmm": lambda t: torch.addmm(t(3, 3), t(3, 3), t(3, 3)),
    "addmm_": lambda t: t(3, 3).addmm_(t(3, 3), t(3, 3)),
    "addmv": lambda t: torch.addmv(t(3), t(3, 3), t(3)),
    "addr": lambda t: torch.addr(t(3, 3), t(3), t(3)),
    "addbmm": lambda t: torch.addbmm(t(3, 3), t(2, 3, 3), t(2, 3, 3)),
    "baddbmm": lambda t: torch.baddbmm(t(2, 3, 3), t(2, 3, 3), t(2, 3, 3)),
    "linear": lambda t: F.linear(t(2, 3), t(4, 3), t(4)),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(3, 3), t(3, 3)),
    "chain_matmul": lambda t: torch.chain_matmul(t(3, 3), t(3, 3), t(3, 3)),
    "multi_dot": lambda t: torch.linalg.multi_dot([t(3, 3), t(3, 3), t(3, 3)]),
    "vecdot": lambda t: torch.linalg.vecdot(t(3), t(3)),
    "outer": lambda t: torch.outer(t(3), t(3)),
    "inner": lambda t: torch.inner(t(3), t(3)),
    "attention": lambda t: F.scaled_dot_product_attention(t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)),
    # convolutions and cells
    "conv1d": lambda t: F.conv1d(t(1, 2, 8), t(2, 2, 3)),
    "conv2d": lambda t: F.conv2d(t(1, 2, 8, 8), t(2, 2, 3, 3), t(2)),
    "conv2d same": lambda t: F.conv2d(t(1, 2, 8, 8), t(2, 2, 3, 3), padding="same"),
    "conv3d": lambda t: F.conv3d(t(1, 2, 5, 5, 5), t(2, 2, 3, 3, 3)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(t(1, 2, 8), t(2, 2, 3)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(1, 2, 8, 8), t(2, 2, 3, 3)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(t(1, 2, 5, 5, 5), t(2, 2, 3, 3, 3)),
    "conv_tbc": lambda t: torch.conv_tbc(t(5, 1, 2), t(3, 2, 2), t(2)),
    "prelu": lambda t: F.prelu(t(2, 3), t(3)),
    "lstm_cell": lambda t: torch.lstm_cell(t(2, 3), (t(2, 4), t(2, 4)), t(16, 3), t(16, 4), t(16), t(16))[0],
    "gru_cell": lambda t: torch.gru_cell(t(2, 3), t(2, 4), t(12, 3), t(12, 4), t(12), t(12)),
    "rnn_tanh_cell": lambda t: torch.rnn_tanh_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)),
    "rnn_relu_cell": lambda t: torch.rnn_relu_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)),
    "LSTM": lambda t: nn.LSTM(3, 4, device="cuda")(t(2, 1, 3))[0],
    "GRU": lambda t: nn.GRU(3, 4, device="cuda")(t(2, 1, 3))[0],
    "RNN": lambda t: nn.RNN(3, 4, device="cuda")(t(2, 1, 3))[0],
    # powers, sums, norms
    "pow scalar": lambda t: t(2, 3) ** 2,
    "pow tensor": lambda t: t(2, 3) ** t(2, 3),
    "rpow": lambda t: 2 ** t(2, 3),
    "exp double": lambda t: t(3).double().exp(),
    "exp_": lambda t: t(3).exp_(),
    "softmax": lambda t: F.softmax(t(2, 3), -1),
    "softmax half": lambda t: F.softmax(t(2, 3), -1, dtype=torch.float16),
    "softmax double": lambda t: torch.softmax(t(2, 3), -1, torch.float64),
    "softmin": lambda t: F.softmin(t(2, 3), -1),
    "log_softmax": lambda t: F.log_softmax(t(2, 3), -1),
    "logsumexp": lambda t: torch.logsumexp(t(2, 3), 1),
    "cumsum": lambda t: t(2, 3).cumsum(0),
    "cumprod": lambda t: t(2, 3).cumprod(0),
    "logcumsumexp": lambda t: t(3).logcumsumexp(0),
    "prod": lambda t: t(2, 3).prod(),
    "prod dim": lambda t: t(2, 3).prod(0),
    "sum": lambda t: t(2, 3).sum(),
    "sum dim": lambda t: t(2, 3).sum(0),
    "sum dtype": lambda t: t(2, 3).sum(dtype=torch.float16),
    "sum bool": lambda t: (t(2, 3) > 0.5).sum(),
    "sum double": lambda t: t(2, 3).double().sum(),
    "layer_norm": lambda t: F.layer_norm(t(2, 3), (3,), r(3), r(3)),
    "rms_norm": lambda t: F.rms_norm(t(2, 3), (3,)),
    "group_norm": lambda t: F.group_norm(t(2, 4, 3), 2, r(4), r(4)),
    "instance_norm": lambda t: F.instance_norm(t(2, 4, 3)),
    "batch_norm": lambda t: F.batch_norm(t(2, 3, 4), r(3), r(3), r(3), r(3), True),
    "local_response_norm": lambda t: F.local_response_norm(t(1, 4, 3), 2),
    "norm": lambda t: t(2, 3).norm(),
    "norm 1 dim": lambda t: t(2, 3).norm(1, 0),
    "norm dtype": lambda t: t(2, 3).norm(2, dtype=torch.float64),
    "norm fro": lambda t: torch.norm(t(2, 3), p="fro", dim=(0, 1)),
    "norm.Scalar": lambda t: torch.ops.aten.norm.Scalar(t(2, 3), 2),
    "norm.ScalarOpt_dim": lambda t: torch.ops.aten.norm.ScalarOpt_dim(t(2, 3), 2, [0]),
    "vector_norm": lambda t: torch.linalg.vector_norm(t(2, 3)),
    "matrix_norm": lambda t: torch.linalg.matrix_norm(t(3, 3)),
    "matrix_norm 1": lambda t: torch.linalg.matrix_norm(t(3, 3), 1),
    "nuclear_norm": lambda t: torch.nuclear_norm(t(3, 3)),
    "frobenius_norm": lambda t: torch.frobenius_norm(t(3, 3), dim=(0, 1)),
    "normalize": lambda t: F.normalize(t(2, 3)),
    "renorm": lambda t: torch.renorm(t(3, 3), 2, 0, 1.0),
    "cosine_similarity": lambda t: F.cosine_similarity(t(2, 3), t(2, 3)),
    "pairwise_distance": lambda t: F.pairwise_distance(t(2, 3), t(2, 3)),
    "cdist": lambda t: torch.cdist(t(2, 3), t(2, 3)),
    "pdist": lambda t: F.pdist(t(3, 3)),
    "dist": lambda t: torch.dist(t(3), t(3)),
    # losses
    "cross_entropy": lambda t: F.cross_entropy(t(2, 3), ids(2)),
    "cross_entropy of shares": lambda t: F.cross_entropy(t(2, 3), t(2, 3)),
    "cross_entropy smooth": lambda t: F.cross_entropy(t(2, 3), ids(2), label_smoothing=0.1),
    "nll_loss": lambda t: F.nll_loss(t(2, 3), ids(2)),
    "nll_loss 2d": lambda t: F.nll_loss(t(1, 3, 2, 2), ids(1, 2, 2)),
    "mse_loss": lambda t: F.mse_loss(t(2, 3), t(2, 3)),
    "mse_loss mixed": lambda t: F.mse_loss(t(2, 3), r(2, 3)),
    "l1_loss": lambda t: F.l1_loss(t(2, 3), t(2, 3)),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t(2, 3), t(2, 3)),
    "huber_loss": lambda t: F.huber_loss(t(2, 3), t(2, 3)),
    "kl_div": lambda t: F.kl_div(t(2, 3), t(2, 3), reduction="batchmean"),
    "poisson_nll_loss": lambda t: F.poisson_nll_loss(t(2, 3), t(2, 3)),
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(2, 3), t(2, 3), t(2).sign()),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(2, 3), t(2, 3).sign()),
    "margin_ranking_loss": lambda t: F.margin_ranking_loss(t(2), t(2), t(2).sign()),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(t(2, 3), ids(2, 3)),
    "multilabel_soft_margin_loss": lambda t: F.multilabel_soft_margin_loss(t(2, 3), t(2, 3)),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(2, 3), ids(2)),
    "soft_margin_loss": lambda t: F.soft_margin_loss(t(2, 3), t(2, 3).sign()),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3)),
    "bce_with_logits": lambda t: F.binary_cross_entropy_with_logits(t(2, 3), t(2, 3)),
    "binary_cross_entropy": lambda t: F.binary_cross_entropy(t(2, 3), t(2, 3)),
    "BCELoss": lambda t: nn.BCELoss()(t(2, 3), r(2, 3)),
    # images and indexes
    "nearest": lambda t: F.interpolate(t(1, 1, 4, 4), scale_factor=2),
    "nearest 1d": lambda t: F.interpolate(t(1, 1, 4), scale_factor=2),
    "nearest-exact": lambda t: F.interpolate(t(1, 1, 4, 4), scale_factor=2, mode="nearest-exact"),
    "linear 1d": lambda t: F.interpolate(t(1, 1, 4), scale_factor=2, mode="linear"),
    "bilinear 2d": lambda t: F.interpolate(t(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "bilinear antialias": lambda t: F.interpolate(t(1, 1, 4, 4), size=(8, 8), mode="bilinear", antialias=True),
    "bicubic": lambda t: F.interpolate(t(1, 1, 4, 4), size=(8, 8), mode="bicubic"),
    "trilinear": lambda t: F.interpolate(t(1, 1, 4, 4, 4), scale_factor=2, mode="trilinear"),
    "grid_sample": lambda t: F.grid_sample(t(1, 1, 4, 4), t(1, 2, 2, 2), align_corners=False),
    "grid_sample mixed": lambda t: F.grid_sample(t(1, 1, 4, 4), r(1, 2, 2, 2), align_corners=False),
    "affine_grid": lambda t: F.affine_grid(t(1, 2, 3), [1, 1, 4, 4], align_corners=False),
    "embedding": lambda t: F.embedding(ids(2), t(3, 4)),
    "embedding_bag": lambda t: F.embedding_bag(ids(1, 2), t(3, 4)),
    "max_pool2d": lambda t: F.max_pool2d(t(1, 1, 4, 4), 2),
    "max_pool3d": lambda t: F.max_pool3d(t(1, 1, 4, 4, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t(1, 1, 4, 4), 2),
    "avg_pool3d": lambda t: F.avg_pool3d(t(1, 1, 4, 4, 4), 2),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t(1, 1, 4, 4), 1),
    "pad reflect": lambda t: F.pad(t(1, 1, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "dropout": lambda t: F.dropout(t(2, 3)),
    "glu": lambda t: F.glu(t(2, 4)),
    # the widest dtype
    "cat": lambda t: torch.cat([t(2), t(2)]),
    "cat mixed": lambda t: torch.cat([t(2), r(2)]),
    "stack": lambda t: torch.stack([t(2), t(2)]),
    "stack mixed": lambda t: torch.stack([t(2), r(2)]),
    "index_put": lambda t: torch.index_put(t(3), (ids(1),), t(1)),
    "index_put mixed": lambda t: torch.index_put(t(3), (ids(1),), r(1)),
    "scatter_add mixed": lambda t: torch.scatter_add(t(3), 0, ids(1), r(1)),
    "addcdiv": lambda t: torch.addcdiv(t(3), t(3), r(3)),
    "addcmul": lambda t: torch.addcmul(t(3), t(3), r(3)),
    "addcmul same": lambda t: torch.addcmul(t(3), t(3), t(3)),
    "atan2": lambda t: torch.atan2(t(3), r(3)),
    "bilinear": lambda t: F.bilinear(t(2, 3), t(2, 3), t(4, 3, 3)),
    "cross": lambda t: torch.cross(t(3), r(3), dim=0),
    "dot": lambda t: torch.dot(t(3), t(3)),
    "dot mixed": lambda t: torch.dot(t(3), r(3)),
    "dot bfloat16": lambda t: torch.dot(t(3), t(3).bfloat16()),
    "vdot": lambda t: torch.vdot(t(3), r(3)),
    "tensordot": lambda t: torch.tensordot(t(3, 3), t(3, 3), 1),
    "add mixed": lambda t: t(3) + r(3),
    "where": lambda t: torch.where(t(3) > 0, t(3), r(3)),
    "lerp": lambda t: torch.lerp(t(3), t(3), 0.5),
    # what only the CPU's policy treats
    "rfft": lambda t: torch.fft.rfft(t(8)),
    "trace": lambda t: t(3, 3).trace(),
    "quantile": lambda t: torch.quantile(t(3), 0.5),
    "svdvals": lambda t: torch.linalg.svdvals(t(3, 3)),
}
for _name in """abs acos asin cosh digamma erf erfinv exp exp2 expm1 lgamma log log10 log1p log2 logit mean median neg
        reciprocal relu rsqrt sigmoid sin sinh sqrt square std tan tanh var""".split():
    OPERATORS[_name] = lambda t, name=_name: getattr(torch, name)(t(2, 3))
for _name in "elu gelu hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softsign".split():
    OPERATORS[_name] = lambda t, name=_name: getattr(F, name)(t(2, 3))

# Where the two answers differ, and why; everything else must be equal.
NO_LIBRARY = "fake CUDA tensors do not reach this operator's result without the CUDA library"
NO_HALF = "the CPU has no kernel for half"
NO_CHECK = "fake tensors do not check that dtypes are equal, real ones on CUDA do"
DECOMPOSED = "fake tensors decompose it into products and sums; the real operator calls bmm, on CUDA as well"
EXCEPTIONS = {
    ("gru_cell", "float16"): NO_LIBRARY,
    ("gru_cell", "float32"): NO_LIBRARY,
    ("LSTM", "float16"): NO_LIBRARY,
    ("LSTM", "float32"): NO_LIBRARY,
    ("GRU", "float16"): NO_LIBRARY,
    ("GRU", "float32"): NO_LIBRARY,
    ("RNN", "float16"): NO_LIBRARY,
    ("RNN", "float32"): NO_LIBRARY,
    ("batch_norm", "float16"): NO_LIBRARY,
    ("batch_norm", "float32"): NO_LIBRARY,
    ("grid_sample", "float16"): NO_LIBRARY,
    ("grid_sample", "float32"): NO_LIBRARY,
    ("grid_sample mixed", "float16"): NO_LIBRARY,
    ("grid_sample mixed", "float32"): NO_LIBRARY,
    ("affine_grid", "float32"): DECOMPOSED,
    ("rfft", "float16"): NO_HALF,
    ("svdvals", "float16"): NO_HALF,
    ("mm half and double", "float16"): NO_CHECK,
    ("mm half and double", "float32"): NO_CHECK,
}
