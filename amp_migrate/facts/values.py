"""What values an expression can have: constants, command-line options, proven booleans."""

from __future__ import annotations

import ast
import dataclasses

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.object import Object
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.tree import Tree, called_name, walk

_BOOL_CALLS = frozenset("bool isinstance issubclass hasattr callable any all".split())
_BOOL_METHODS = frozenset("is_available is_initialized startswith endswith is_file is_dir exists isfile isdir".split())
PARSING = frozenset(("parse_args", "parse_known_args"))  # the methods that read the command line
_BOOL_ACTIONS = frozenset(("store_true", "store_false", "argparse.BooleanOptionalAction", "BooleanOptionalAction"))


@dataclasses.dataclass(frozen=True)
class CommandLineOption:
    """One `add_argument` call: the attribute it sets, and what can be known of its value."""

    name: str
    node: cst.Call
    is_bool: bool
    is_int: bool
    default: object
    choices: tuple[object, ...] | None
    is_required: bool


class _Unknown:
    """The value of an expression that is not constant."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


class Values:
    """Constant values and types, as far as the unit shows them."""

    def __init__(self, tree: Tree, names: Names, objects: Objects) -> None:
        self.names = names
        self.objects = objects
        self.options: dict[str, list[CommandLineOption]] = {}
        self._root_of = tree.root_of
        self._asked: set[cst.BaseExpression] = set()
        for part, _ in tree.every(cst.Call):
            if called_name(part) in ("add_argument", "add_arg"):
                option = _option(part)
                if option is not None:
                    self.options.setdefault(option.name, []).append(option)

    def constant(self, node: cst.BaseExpression) -> object:
        """The value of a literal, or of a name that is bound once to a literal; else UNKNOWN."""
        literal = literal_value(node)
        if literal is not UNKNOWN:
            return literal
        if isinstance(node, cst.Name):
            variable = self.names.definition(node)
            if variable is not None and len(variable.bindings) == 1:
                binding = variable.bindings[0]
                if binding.kind == "assign" and binding.value is not None:
                    return literal_value(binding.value)
        return UNKNOWN

    def option(self, node: cst.BaseExpression) -> CommandLineOption | None:
        """The command-line option that `args.x` reads, where `args` comes from a parser of the unit: that of the file,
        or what those of several scripts have in common.

        A parameter that nothing in the unit gives a value counts as the parsed arguments too: it is how
        scripts hand them around.
        """
        if isinstance(node, cst.Name):
            values = self.objects.values_of(node)
            return self.option(values[0]) if len(values) == 1 and isinstance(values[0], cst.Attribute) else None
        if not isinstance(node, cst.Attribute) or node.attr.value not in self.options:
            return None
        bases = self.objects.objects(node.value)
        if all(_is_parsed(_outermost(base).origin) or base.kind == "parameter" for base in bases):
            declared = self.options[node.attr.value]
            own = [one for one in declared if self._root_of(one.node) is self._root_of(node)]
            return _in_common(own or declared)
        return None

    def is_bool(self, node: cst.BaseExpression) -> bool:
        """True where the value is certainly True or False (`autocast(enabled=)` raises for others)."""
        if isinstance(node, cst.Comparison):
            return True
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Not)
        if isinstance(node, cst.BooleanOperation):
            return self.is_bool(node.left) and self.is_bool(node.right)
        if isinstance(node, cst.IfExp):
            return self.is_bool(node.body) and self.is_bool(node.orelse)
        if isinstance(node, cst.Call):
            name = called_name(node)
            return name in _BOOL_METHODS if isinstance(node.func, cst.Attribute) else name in _BOOL_CALLS
        if isinstance(node, cst.Name) and node.value in ("True", "False"):
            return True
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return self._variable_is_bool(node)
        return False

    def _variable_is_bool(self, node: cst.BaseExpression) -> bool:
        if node in self._asked:
            return False
        self._asked.add(node)
        try:
            option = self.option(node)
            known = (
                (option is not None and option.is_bool) or self._annotated_bool(node) or self._is_bool_elsewhere(node)
            )
            values = self.objects.values_of(node)
            all_seen = self._is_only_assigned(node) or self._is_own_attribute(node)
            return (known or (bool(values) and all_seen)) and all(self.is_bool(value) for value in values)
        finally:
            self._asked.discard(node)

    def _is_only_assigned(self, node: cst.BaseExpression) -> bool:
        """True for variables and parameters: not for targets of loops and tuples, whose values are not in sight."""
        variable = self.names.definition(node)
        return variable is not None and all(
            binding.kind == "param" or (binding.kind == "assign" and not binding.selector)
            for binding in variable.bindings
        )

    def _is_own_attribute(self, node: cst.BaseExpression) -> bool:
        """True for attributes of instances of the unit's classes, and for those that a script adds to its parsed
        arguments (`args.cuda = not args.no_cuda`): every value that they get is in sight.
        """
        if not isinstance(node, cst.Attribute):
            return False
        is_added = node.attr.value not in self.options
        return all(
            base.kind == "instance" or (is_added and _is_parsed(_outermost(base).origin))
            for base in self.objects.objects(node.value)
        )

    def _is_bool_elsewhere(self, node: cst.BaseExpression) -> bool:
        """True for `config.FP16` of a module outside of the unit that sets it to True or False."""
        path = self.names.dotted(node)
        return path is not None and self.names.elsewhere.is_bool(path)

    def _annotated_bool(self, node: cst.BaseExpression) -> bool:
        variable = self.names.variable_at(node)
        return variable is not None and any(_annotated_bool(binding.node) for binding in variable.bindings)


def literal_value(node: cst.BaseExpression) -> object:
    """The value of a literal expression, arithmetic on numbers included; else UNKNOWN.

    >>> literal_value(cst.parse_expression("2.**16"))
    65536.0
    """
    if isinstance(node, cst.Name):
        return {"None": None, "True": True, "False": False}.get(node.value, UNKNOWN)
    if isinstance(node, cst.BinaryOperation):
        left, right = literal_value(node.left), literal_value(node.right)
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return _arithmetic(node.operator, left, right)
        return UNKNOWN
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = literal_value(node.expression)
        return -value if isinstance(value, (int, float)) else UNKNOWN
    if isinstance(node, cst.Call):
        return _converted(node)
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.BaseNumber, cst.UnaryOperation)):
        try:
            return ast.literal_eval(_written(node))
        except (ValueError, SyntaxError):
            return UNKNOWN
    if isinstance(node, (cst.Tuple, cst.List)):
        items = [literal_value(element.value) for element in node.elements]
        return UNKNOWN if UNKNOWN in items else tuple(items)
    return UNKNOWN


def _written(node: cst.BaseExpression) -> str:
    if isinstance(node, (cst.SimpleString, cst.Integer, cst.Float, cst.Imaginary)):
        return node.value
    return cst.Module([]).code_for_node(node).strip()


def _converted(call: cst.Call) -> object:
    """The value of `float("-1e20")` and `int(1e9)`."""
    converter = {"float": float, "int": int}.get(call.func.value) if isinstance(call.func, cst.Name) else None
    value = literal_value(call.args[0].value) if len(call.args) == 1 and not call.args[0].star else UNKNOWN
    try:
        return converter(value) if converter is not None and isinstance(value, (int, float, str)) else UNKNOWN
    except (ValueError, OverflowError):
        return UNKNOWN


def _arithmetic(operator: cst.BaseBinaryOp, left: float, right: float) -> object:
    try:
        if isinstance(operator, cst.Power):
            return left**right if abs(right) < 200 else UNKNOWN
        if isinstance(operator, cst.Add):
            return left + right
        if isinstance(operator, cst.Subtract):
            return left - right
        if isinstance(operator, cst.Multiply):
            return left * right
        if isinstance(operator, cst.Divide):
            return left / right
    except (OverflowError, ZeroDivisionError):
        return UNKNOWN
    return UNKNOWN


def _in_common(options: list[CommandLineOption]) -> CommandLineOption:
    last = options[-1]
    return dataclasses.replace(
        last,
        is_bool=all(one.is_bool for one in options),
        is_int=all(one.is_int for one in options),
        default=last.default if all(one.default == last.default for one in options) else UNKNOWN,
        choices=last.choices if all(one.choices == last.choices for one in options) else None,
        is_required=all(one.is_required for one in options),
    )


def _option(call: cst.Call) -> CommandLineOption | None:
    flags = [
        arg.value.evaluated_value
        for arg in call.args
        if arg.keyword is None and isinstance(arg.value, cst.SimpleString)
    ]
    names = [flag for flag in flags if isinstance(flag, str)]
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    dest = literal_value(given["dest"]) if "dest" in given else None
    if not isinstance(dest, str):
        long = [name for name in names if name.startswith("--")] or names
        if not long:
            return None
        dest = long[0].lstrip("-").replace("-", "_")
    action = given.get("action")
    action_text = ""
    if action is not None:
        literal = literal_value(action)
        action_text = literal if isinstance(literal, str) else cst.Module([]).code_for_node(action)
    choices = literal_value(given["choices"]) if "choices" in given else UNKNOWN
    made = given.get("type")
    return CommandLineOption(
        name=dest,
        node=call,
        is_bool=action_text in _BOOL_ACTIONS or _is_typed_bool(given),
        is_int=isinstance(made, cst.Name) and made.value == "int",
        default=literal_value(given["default"]) if "default" in given else UNKNOWN,
        choices=choices if isinstance(choices, tuple) else None,
        is_required="required" in given or not any(name.startswith("-") for name in names),
    )


def _is_typed_bool(given: dict[str, cst.BaseExpression]) -> bool:
    """`type=bool, default=True`: whatever is given on the command line is made a bool."""
    made = given.get("type")
    default = literal_value(given["default"]) if "default" in given else None
    return isinstance(made, cst.Name) and made.value == "bool" and isinstance(default, bool)


def _is_parsed(value: object) -> bool:
    """True for expressions that hold a `parse_args()` call."""
    return isinstance(value, cst.CSTNode) and any(
        isinstance(part, cst.Call) and called_name(part) in PARSING for part in walk(value)
    )


def _outermost(one: Object) -> Object:
    while one.holder is not None:
        one = one.holder
    return one


def _annotated_bool(node: cst.CSTNode) -> bool:
    annotation = node.annotation if isinstance(node, cst.Param) else None
    return (
        annotation is not None and isinstance(annotation.annotation, cst.Name) and annotation.annotation.value == "bool"
    )
