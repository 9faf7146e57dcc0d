"""Mistakes in migrations from the other source forms: fp16_utils, hand-made half precision, the old handle, plain loops."""

from __future__ import annotations

from tests.mutations import Mutation

_CLIP_FP16 = """        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
"""
_STEP = """    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
_PLAIN_STEP = """    loss.backward()
    optimizer.step()
"""

_FP16_UTILS = [
    Mutation(
        "fp16_utils: half weights left, under a scaler",
        "fp16_utils/static_scale",
        "Net().cuda()\n",
        "Net().cuda().half()\n",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "fp16_utils: half weights left, without a scaler",
        "fp16_utils/network_to_half_bn",
        "model = net.cuda()",
        "model = net.cuda().half()",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "fp16_utils: half inputs left",
        "fp16_utils/static_scale",
        "x = data[pick].cuda()\n",
        "x = data[pick].cuda().half()\n",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "fp16_utils: autocast missing",
        "fp16_utils/network_to_half_bn",
        """        with torch.cuda.amp.autocast():
            output = model(images[i:i + 12].cuda())
            loss""",
        """        if True:
            output = model(images[i:i + 12].cuda())
            loss""",
        "half precision in training: 0.00",
    ),
    Mutation(
        "fp16_utils: scaler missing",
        "fp16_utils/guarded_dynamic",
        """        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
        """        loss.backward()
        optimizer.step()
""",
        "scaled losses: 0 of 8 (all): backward 1 got a loss without loss scale",
    ),
    Mutation(
        "fp16_utils: clip not unscaled",
        "fp16_utils/clip_master_grads",
        "        scaler.unscale_(optimizer)\n",
        "",
        "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip",
    ),
    Mutation(
        "fp16_utils: clip lost",
        "fp16_utils/clip_master_grads",
        _CLIP_FP16,
        "",
        "update 1 clips 0 time(s) instead of 1",
    ),
    Mutation(
        "fp16_utils: update_master_grads in every micro-batch",
        "fp16_utils/clip_master_grads",
        "    if (i + 1) % ACCUMULATE == 0:\n        scaler.unscale_(optimizer)\n",
        "    scaler.unscale_(optimizer)\n    if (i + 1) % ACCUMULATE == 0:\n",
        "RuntimeError: unscale_() has already been called",
    ),
    Mutation(
        "fp16_utils: loss divided twice",
        "fp16_utils/clip_master_grads",
        "scaler.scale(loss)",
        "scaler.scale(loss / ACCUMULATE)",
        "without AMP, the loss of update 1 is",
    ),
    Mutation(
        "fp16_utils: weight decay changed",
        "fp16_utils/guarded_dynamic",
        "weight_decay=1e-4",
        "weight_decay=0.1",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "fp16_utils: weight decay changed, against the plain arm",
        "fp16_utils/fused_adam_when_half",
        "lr=args.learning_rate)",
        "lr=args.learning_rate, weight_decay=0.1)",
        "without AMP, the loss of update 2 is",
        plain_arm=True,
    ),
    Mutation(
        "fp16_utils: optimizer of the half arm, against the plain arm",
        "fp16_utils/fused_adam_when_half",
        "torch.optim.Adam(model.parameters(), lr=args.learning_rate)",
        "torch.optim.AdamW(model.parameters(), lr=args.learning_rate)",
        "without AMP, the loss of update 2 is",
        plain_arm=True,
    ),
    Mutation(
        "fp16_utils: gradients still divided by hand",
        "fp16_utils/master_params_loop",
        "    scaler.unscale_(optimizer)\n",
        """    scaler.unscale_(optimizer)
    for param in model.parameters():
        param.grad.data.mul_(1.0 / 256.0)
""",
        "the loss is not multiplied by 256 any more, but the gradients are still divided by it",
    ),
    Mutation(
        "fp16_utils: loss still multiplied by hand",
        "fp16_utils/master_params_loop",
        "scaler.scale(loss)",
        "scaler.scale(loss.float() * 256.0)",
        "the loss is still multiplied by 256, but the gradients are not divided by it any more",
    ),
    Mutation(
        "fp16_utils: scale of another type",
        "fp16_utils/static_scale",
        "scaler.update(128.0)",
        "scaler.update(128)",
        "AttributeError: 'int' object has no attribute 'device'",
    ),
]

_HALF = [
    Mutation(
        "half: weights left",
        "half/cnn_batch_norm_float",
        "net = BasicNet().cuda()\n",
        "net = BasicNet().cuda()\nnet.half()\n",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "half: inputs left",
        "half/cnn_batch_norm_float",
        "images[pick].cuda()",
        "images[pick].cuda().half()",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "half: autocast missing",
        "pairs/own_fp16_optimizer",
        "    with torch.cuda.amp.autocast():\n",
        "    if True:\n",
        "the forward of update 1 lies outside of an autocast region",
    ),
    Mutation(
        "half: scaler missing",
        "half/cnn_batch_norm_float",
        _STEP,
        _PLAIN_STEP,
        "scaled losses: 0 (all): float16 without a loss scale",
    ),
    Mutation(
        "half: scaler missing, after a scale by hand",
        "pairs/own_scaler_skips",
        _STEP,
        _PLAIN_STEP,
        "scaled losses: 0 of 12 (all): backward 1 got a loss without loss scale",
    ),
    Mutation(
        "half: weight decay changed",
        "half/cnn_batch_norm_float",
        "weight_decay=5e-4",
        "weight_decay=5e-3",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "half: gradients still divided",
        "half/loss_scale_by_hand",
        "        scaler.unscale_(optimizer)\n",
        """        scaler.unscale_(optimizer)
        if args.half:
            for p in model.parameters():
                p.grad.data.div_(args.loss_scale)
""",
        "the loss is not multiplied by 512 any more, but the gradients are still divided by it",
    ),
    Mutation(
        "half: loss still multiplied",
        "half/loss_scale_by_hand",
        "        scaler.scale(loss).backward()\n",
        """        if args.half:
            loss = loss.float() * args.loss_scale
        scaler.scale(loss).backward()
""",
        "the loss is still multiplied by 512, but the gradients are not divided by it any more",
    ),
    Mutation(
        "half: learning rate changed, where the scale by hand rounds",
        "pairs/master_copies",
        "lr=2e-3",
        "lr=3e-3",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "half: gradients still divided, by a scale that rounds",
        "pairs/master_copies",
        "    scaler.step(optimizer)\n",
        """    scaler.unscale_(optimizer)
    for param in model.parameters():
        param.grad.data /= SCALE
    scaler.step(optimizer)
""",
        "the loss is not multiplied by 1000 any more, but the gradients are still divided by it",
    ),
    Mutation(
        "half: clip not unscaled",
        "half/loss_scale_by_hand",
        "        scaler.unscale_(optimizer)\n",
        "",
        "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip",
    ),
    Mutation(
        "half: lost zero_grad",
        "pairs/own_scaler_skips",
        "    model.zero_grad()\n",
        "",
        "a lost zero_grad",
    ),
]

_HANDLE = [
    Mutation(
        "handle: clip not unscaled",
        "handle/scale_loss_of_handle",
        "        scaler.unscale_(optimizer)\n",
        "",
        "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip",
    ),
    Mutation(
        "handle: one of two losses not scaled",
        "pairs/wrapped_optimizer",
        "scaler.scale(loss_cls)",
        "(loss_cls)",
        "scaled losses: 8 of 16 (all): backward 2 got a loss without loss scale",
    ),
    Mutation(
        "handle: autocast missing",
        "handle/scale_loss_of_handle",
        "torch.cuda.amp.autocast(enabled=args.fp16)",
        "torch.cuda.amp.autocast(enabled=False)",
        "the forward of update 1 lies outside of an autocast region",
    ),
]

_PLAIN = [
    Mutation(
        "plain: autocast missing",
        "plain/accumulation_of_dicts",
        "    with torch.cuda.amp.autocast():\n",
        "    if True:\n",
        "the forward of update 1 lies outside of an autocast region",
    ),
    Mutation(
        "plain: scaler missing",
        "plain/attention_mask",
        _STEP,
        _PLAIN_STEP,
        "scaled losses: 0 (all): float16 without a loss scale",
    ),
    Mutation(
        "plain: clip not unscaled",
        "plain/cnn_clip",
        "        scaler.unscale_(optimizer)\n",
        "",
        "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip",
    ),
    Mutation(
        "plain: weight decay changed",
        "plain/cnn_clip",
        "weight_decay=1e-3",
        "weight_decay=1e-4",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "plain: never enabled",
        "plain/cnn_clip",
        "scaler = torch.cuda.amp.GradScaler(enabled=args.cuda)",
        "scaler = torch.cuda.amp.GradScaler(enabled=not args.cuda)",
        "scaled losses: 0 (all): float16 without a loss scale",
    ),
    Mutation(
        "plain: loss divided twice",
        "plain/accumulation_of_dicts",
        "    loss = loss / STEPS\n",
        "    loss = loss / STEPS / STEPS\n",
        "without AMP, the loss of update 1 is",
    ),
    Mutation(
        "plain: update in every micro-batch",
        "plain/accumulation_of_dicts",
        "        scaler.update()\n        scheduler.step()\n        optimizer.zero_grad()\n",
        "        scheduler.step()\n        optimizer.zero_grad()\n    scaler.update()\n",
        "AssertionError: No inf checks were recorded prior to update",
    ),
    Mutation(
        "plain: backward under autocast",
        "plain/attention_mask",
        "    scaler.scale(loss).backward()\n",
        "        scaler.scale(loss).backward()\n",
        "backward runs inside of the autocast region",
    ),
    Mutation(
        "plain: input cast to half",
        "plain/attention_mask",
        "x = self.embed(tokens)",
        "x = self.embed(tokens).half()",
        "a cast to half precision was left in it",
    ),
    Mutation(
        "plain: one of two losses not scaled",
        "plain/gan_with_logits",
        "scaler.scale(d_fake)",
        "(d_fake)",
        "scaled losses: 16 of 24 (all): backward 2 got a loss without loss scale",
    ),
    Mutation(
        "plain: forward of one network outside of the region",
        "plain/gan_with_logits",
        "    with torch.cuda.amp.autocast():\n        g_loss = criterion(D(fake), ones)\n",
        "    g_loss = criterion(D(fake), ones)\n",
        "RuntimeError: mat1 and mat2 must have the same dtype",
    ),
    Mutation(
        "plain: generator not stepped by the scaler",
        "plain/gan_with_logits",
        "scaler.step(optimizer_G)\n    scaler.update()\n",
        "optimizer_G.step()\n",
        "optimizer 2 steps on scaled gradients by itself",
    ),
    Mutation(
        "plain: BCELoss under autocast",
        "plain/dcgan_sigmoid_bce",
        "    errG = criterion(output, label)\n",
        "        errG = criterion(output, label)\n",
        "torch.nn.BCELoss are unsafe to autocast",
    ),
    Mutation(
        "plain: gradients of the penalty not divided",
        "plain/penalty_in_a_region",
        "autograd.grad(score, mixed,",
        "autograd.grad(scaler.scale(score), mixed,",
        "first loss: 1.3e+07",
    ),
    Mutation(
        "plain: mask beyond half precision",
        "plain/attention_mask",
        "scores.float().masked_fill",
        "scores.masked_fill",
        "value cannot be converted to type",
    ),
    Mutation(
        "plain: Gram matrix in half precision",
        "plain/gram_matrix",
        """    with torch.cuda.amp.autocast(enabled=False):
        return torch.bmm(flat.float(), flat.transpose(1, 2).float())""",
        """    if True:
        return torch.bmm(flat, flat.transpose(1, 2))""",
        "first loss: inf",
    ),
]

# Where an operation replaces an equal one, the bits are not those of the original: a mistake must still show, in float64
# as well where it is as small as rounding.
_REPLACED = [
    Mutation(
        "companions: torch's default weight decay",
        "companions/fused_adam",
        """                        betas = (0.9, 0.95),
                        weight_decay = 0.0)""",
        "                        betas = (0.9, 0.95))",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "companions: eps changed",
        "companions/fused_adam",
        "betas = (0.9, 0.95),",
        "betas = (0.9, 0.95), eps=1e-6,",
        "without AMP, the loss of update 2 is",
    ),
    Mutation(
        "plain: a weight decay beside a Sigmoid that became part of the loss",
        "plain/sigmoid_of_a_container_squeezed",
        "lr=0.02)",
        "lr=0.02, weight_decay=1e-7)",
        "in float64",
    ),
    Mutation(
        "plain: a mean over too few beside a Sigmoid that became part of the loss",
        "plain/sigmoid_of_a_container_squeezed",
        "loss = self.criterion(chances, labels)",
        "loss = self.criterion(chances[1:], labels[1:])",
        "without AMP, the loss of update 1 is",
    ),
]

FORM_MUTATIONS = [*_FP16_UTILS, *_HALF, *_HANDLE, *_PLAIN, *_REPLACED]
