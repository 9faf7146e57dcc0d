"""A training step of a generated script, statement by statement.

A block is a list of lines and of pairs (head, block).
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from tests.generate.shape import Shape

Block: TypeAlias = "list[str | tuple[str, Block]]"


@dataclasses.dataclass(frozen=True)
class Names:
    """How the parts of a training are called where the step stands."""

    shape: Shape
    prefix: str  # "self." in a trainer

    def __getattr__(self, name: str) -> str:
        return f"{self.prefix}{name}"

    @property
    def amp(self) -> str:
        return {"alias": "apex_amp", "dotted": "apex.amp"}.get(self.shape.imports, "amp")

    @property
    def guard(self) -> str:
        return (
            f"{self.prefix}use_amp"
            if self.shape.guard == "use_amp"
            else self.shape.guard.replace("args.", f"{self.prefix}args.")
        )

    @property
    def optimizers(self) -> list[str]:
        return [self.optimizer, *([self.second] if self.shape.two_optimizers else [])]

    def on_gpu(self, what: str) -> str:
        return f"{what}.cuda()" if self.shape.device == "cuda" else f"{what}.to({self.device})"

    def guarded(self, mixed: Block, plain: Block) -> Block:
        """What is done in mixed precision, and what else."""
        if not self.shape.guard:
            return mixed
        return [(f"if {self.guard}:", mixed), ("else:", plain)] if plain else [(f"if {self.guard}:", mixed)]


def step(shape: Shape, names: Names, *, last: str = "len(loader)") -> Block:
    """The body of the loop over `i, (x, y)`."""
    if shape.adversary:
        return _adversary(shape, names)
    body: Block = [*_batch(shape, names)]
    if shape.closure:
        return body + _closure(shape, names)
    if shape.zero == "start" and shape.accumulate == 1:
        body += _zero(shape, names)
    body += loss(shape, names)
    if shape.skip != "none":
        body.append(("if not math.isfinite(loss.item()):", ["continue" if shape.skip == "continue" else "sys.exit(1)"]))
    if shape.accumulate > 1:
        body.append(f"loss = loss / {shape.accumulate}")
    if shape.zero in ("before", "model", "none_first") and shape.accumulate == 1:
        body += _zero(shape, names)
    body += [f"{names.prefix}backward(loss)"] if shape.backward_in_helper and names.prefix else backward(shape, names)
    update = _update(shape, names)
    if shape.accumulate > 1:
        condition = f"(i + 1) % {shape.accumulate} == 0"
        update = [(f"if {condition}{f' or i + 1 == {last}' if shape.rest_of_epoch else ''}:", update)]
    return body + update + _log(shape, names)


def backward(shape: Shape, names: Names) -> Block:
    optimizers = names.optimizers
    which = optimizers[0] if len(optimizers) == 1 else f"[{', '.join(optimizers)}]"
    plain: Block = ["loss.backward()"]
    if shape.form == "apex":
        return names.guarded(
            [(f"with {names.amp}.scale_loss(loss, {which}) as scaled_loss:", ["scaled_loss.backward()"])], plain
        )
    if shape.form == "handle":
        return [(f"with {names.amp_handle}.scale_loss(loss, {which}) as scaled_loss:", ["scaled_loss.backward()"])]
    if shape.form == "fp16_utils":
        return names.guarded([f"{names.optimizer}.backward(loss)"], plain)
    return plain


def loss(shape: Shape, names: Names) -> Block:
    float32 = ".float()" if shape.form in ("fp16_utils", "half") else ""
    call = f"{names.model}(x){float32}"
    return {
        "criterion": [f"loss = {names.criterion}({call}, y)"],
        "functional": [f"output = {call}", "loss = F.cross_entropy(output, y)"],
        "arithmetic": [
            f"output = {call}",
            "loss = (F.log_softmax(output, dim=1) * -F.one_hot(y, 3).float()).sum(1).mean()",
        ],
        "terms": [
            f"output = {call}",
            f"main_loss = {names.criterion}(output, y)",
            "penalty = output.pow(2).mean()",
            "loss = main_loss + 0.1 * penalty",
        ],
        "averaged": [f"loss = {names.criterion}({call}, y).mean()"],
        "method": [f"loss = compute_loss({names.model}, x, y, {names.criterion})"],
    }[shape.loss]


def zero_at_start_of_epoch(shape: Shape, names: Names) -> Block:
    return _zero(shape, names) if shape.accumulate > 1 and not shape.closure and not shape.adversary else []


def _batch(shape: Shape, names: Names) -> Block:
    if shape.form == "half" and not shape.guard:
        return [f"x = {names.on_gpu('x')}.half()", f"y = {names.on_gpu('y')}"]
    lines: Block = [f"x, y = {names.on_gpu('x')}, {names.on_gpu('y')}"]
    if shape.form == "half" or (shape.form == "fp16_utils" and shape.model == "class"):
        lines += names.guarded(["x = x.half()"], [])
    return lines


def _zero(shape: Shape, names: Names) -> Block:
    if shape.zero == "model" and shape.form != "fp16_utils":
        return [f"{names.model}.zero_grad()"]
    argument = (
        "set_to_none=True"
        if shape.zero == "none_first" and shape.form in ("apex", "plain") and "O2" not in shape.keywords
        else ""
    )
    return [f"{optimizer}.zero_grad({argument})" for optimizer in names.optimizers]


def _update(shape: Shape, names: Names) -> Block:
    body = _clip(shape, names) + [f"{optimizer}.step()" for optimizer in names.optimizers]
    if shape.schedule == "step":
        body.append(f"{names.scheduler}.step()")
    if shape.accumulate > 1 or shape.zero == "after":
        body += _zero(shape, names)
    return body


def _clip(shape: Shape, names: Names) -> Block:
    clip = "torch.nn.utils.clip_grad_norm_"
    own = f"{clip}({names.model}.parameters(), 1.0)"
    if shape.clip == "none":
        return []
    if shape.clip == "master":
        if shape.form == "apex":
            return names.guarded([f"{clip}({names.amp}.master_params({names.optimizer}), 1.0)"], [own])
        if shape.form == "fp16_utils":
            return names.guarded([f"{names.optimizer}.clip_master_grads(1.0)"], [own])
    if shape.clip == "value":
        return [f"torch.nn.utils.clip_grad_value_({names.model}.parameters(), 0.1)"]
    return [f"norm = {own}", 'print("norm %.3f" % float(norm))'] if shape.clip == "logged" else [own]


def _log(shape: Shape, names: Names) -> Block:
    return {
        "item": ['print("loss %.4f" % loss.item())'],
        "list": ["losses.append(loss.item())"],
        "average": ["total += loss.item() * x.size(0)"],
        "norm": [("if i % 2 == 0:", ['print("step", i, "loss", float(loss))'])],
    }[shape.log]


def _closure(shape: Shape, names: Names) -> Block:
    inner: Block = [*_zero(shape, names), *loss(shape, names), *backward(shape, names), "return loss"]
    return [("def closure():", inner), *(f"{optimizer}.step(closure)" for optimizer in names.optimizers)]


def _adversary(shape: Shape, names: Names) -> Block:
    """A discriminator `critic` that tells outputs of the model from the labels, in turn with the model."""
    real, fake = "torch.ones(len(x), 1, device=x.device)", "torch.zeros(len(x), 1, device=x.device)"

    def back(loss: str, optimizer: str) -> Block:
        plain: Block = [f"{loss}.backward()"]
        if shape.form == "plain":
            return plain
        return names.guarded(
            [(f"with {names.amp}.scale_loss({loss}, {optimizer}) as scaled:", ["scaled.backward()"])], plain
        )

    return [
        *_batch(shape, names),
        "target = F.one_hot(y, 3).float()",
        f"fake = {names.model}(x)",
        f"{names.critic_optimizer}.zero_grad()",
        f"critic_loss = {names.adversarial}({names.critic}(target), {real})",
        f"critic_loss = critic_loss + {names.adversarial}({names.critic}(fake.detach()), {fake})",
        *back("critic_loss", names.critic_optimizer),
        f"{names.critic_optimizer}.step()",
        f"{names.optimizer}.zero_grad()",
        f"loss = {names.adversarial}({names.critic}(fake), {real}) + {names.criterion}(fake, y)",
        *back("loss", names.optimizer),
        f"{names.optimizer}.step()",
        *_log(shape, names),
    ]
