"""What stands for `amp.master_params(optimizer)`: the parameters themselves."""

from __future__ import annotations

import libcst as cst

from amp_migrate.native.nodes import alone, over_parameters
from amp_migrate.native.writer import Writer
from amp_migrate.plain_attributes import bare
from amp_migrate.plan.model import ParameterAccess


class ParameterWriter(Writer):
    def write(self) -> None:
        """Every use of master parameters, and the clips that they are given to."""
        kept = {collapse.node: collapse for collapse in self.plan.collapses}
        for access in self.plan.found.parameters:
            text = self._parameters_text(access)
            if access.clips:
                torch = self.spellings.at(access.node).torch
                arguments = ", ".join([text, *(self.facts.text(alone(arg)) for arg in access.node.args)])
                self.edits.replace(access.node, f"{torch}.nn.utils.clip_grad_norm_({arguments})")
                continue
            parent = self.facts.tree.parents.get(access.node)
            node = parent if parent in kept else access.node
            assert node is not None
            self.edits.replace(node, text)
            if text.startswith("(") and self._is_only_argument(node):
                self.edits.transform(node, bare)  # type: ignore[arg-type]

    def _parameters_text(self, access: ParameterAccess) -> str:
        function = access.statement.function
        text = access.replacement
        if text is None:
            models = self.plan.parameters.models_of_optimizer(access.optimizer)
            text = self.plan.parameters.visible_expression(models, function) if models is not None else None
        generator = f"p {over_parameters(self.facts, access.optimizer, access.node)}"
        if self._is_bound_to_name(access):
            return f"list({text})" if text is not None else f"[{generator}]"
        if text is not None:
            return text
        return f"({generator})"

    def _is_only_argument(self, node: cst.CSTNode) -> bool:
        """True in `list(...)`, where a generator needs no parentheses of its own."""
        argument = self.facts.tree.parents.get(node)
        if not isinstance(argument, cst.Arg) or argument.keyword is not None:
            return False
        call = self.facts.tree.parents.get(argument)
        return isinstance(call, cst.Call) and len(call.args) == 1

    def _is_bound_to_name(self, access: ParameterAccess) -> bool:
        if access.clips:
            return False
        node = self.facts.tree.parents.get(access.node)
        return isinstance(node, cst.Assign) or (
            isinstance(node, cst.IfExp) and isinstance(self.facts.tree.parents.get(node), cst.Assign)
        )
