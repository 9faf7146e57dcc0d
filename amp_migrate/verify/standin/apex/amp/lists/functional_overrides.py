"""The lists for torch.nn.functional."""

import torch

MODULE = torch.nn.functional

# prelu is not in Apex's list: it was a Python function that called the listed torch.prelu, which it no longer does.
FP16_FUNCS = ("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc linear prelu").split()

FP32_FUNCS = (
    "interpolate grid_sample "
    "softplus softmin log_softmax softmax gelu "
    "layer_norm group_norm local_response_norm normalize cosine_similarity "
    "poisson_nll_loss cosine_embedding_loss cross_entropy hinge_embedding_loss kl_div l1_loss mse_loss "
    "margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss nll_loss "
    "binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss triplet_margin_loss ctc_loss"
).split()

BANNED_FUNCS = [
    (
        "binary_cross_entropy",
        "amp does not work with binary_cross_entropy or BCELoss on fp16 input: use BCEWithLogitsLoss, or "
        "amp.register_float_function(torch, 'sigmoid') before amp.initialize, or amp.init(allow_banned=True).",
    )
]
