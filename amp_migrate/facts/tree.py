"""The statement tree of the modules of a unit: blocks, statements, functions and classes over LibCST trees.

LibCST's own metadata providers cost ten times the parse, so the few relations that the analysis needs
are collected here in one walk: the parent of every node, the statement that holds it, and the block,
function and class that hold the statement.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import TypeVar

import libcst as cst

from amp_migrate.module_text import KEPT_MODULES

_Node = TypeVar("_Node", bound=cst.CSTNode)
_Value = TypeVar("_Value")
_JUMPS = (cst.Break, cst.Continue, cst.Return, cst.Raise)  # after which nothing of their block runs
_NO_NODES = frozenset((type(None), str, bool, int, cst.MaybeSentinel))
_NOT_SYNTAX = frozenset(
    "lpar rpar comma semicolon leading_lines lines_after_decorators header footer trailing_whitespace "
    "indent equal lbracket rbracket lbrace rbrace dot colon first_colon second_colon star "
    "posonly_ind separator".split()
)


@cache
def _syntax_fields(cls: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a node class that hold syntax rather than whitespace and punctuation."""
    return tuple(
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in _NOT_SYNTAX and not field.name.startswith("whitespace")
    )


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The syntactic children of `node`, whitespace and punctuation left out."""
    found: list[cst.CSTNode] = []
    for name in _syntax_fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found.extend(value)
        elif kind not in _NO_NODES:  # asking for the abstract class CSTNode would cost a third of every analysis
            found.append(value)
    return found


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, in pre-order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def _lambda_body(node: cst.CSTNode) -> cst.CSTNode | None:
    return node.body if isinstance(node, cst.Lambda) else None


def _walk_here(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, in pre-order, without the bodies of lambdas: they run when they are called."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        body = _lambda_body(current)
        stack.extend(child for child in reversed(children(current)) if child is not body)


def by_function(statements: Iterable[Statement]) -> dict[Function, list[Statement]]:
    """The statements of each function."""
    found: dict[Function, list[Statement]] = {}
    for statement in statements:
        found.setdefault(statement.function, []).append(statement)
    return found


def is_atom(node: cst.CSTNode) -> bool:
    """True for an expression that an attribute can follow as it stands, without parentheses of its own."""
    is_path = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    return is_path or (isinstance(node, cst.BaseExpression) and bool(node.lpar))


def atom(node: cst.CSTNode) -> cst.BaseExpression:
    """The expression, in parentheses of its own where an attribute could not follow it."""
    assert isinstance(node, cst.BaseExpression)
    return node if is_atom(node) else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def names_in(node: cst.CSTNode) -> set[str]:
    """The plain names below `node`."""
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


def called_name(call: cst.Call) -> str:
    """The last name of what is called: `clip_grad_norm_` for `torch.nn.utils.clip_grad_norm_(...)`."""
    func = call.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def is_super(node: cst.BaseExpression) -> bool:
    """True for `super()` and `super(Net, self)`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def wholes(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """`net.layers[0]`, `net.layers` and `net` of `net.layers[0]`."""
    yield node
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
        yield node


def argument_value(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    """What a call gives under a keyword, or at a position; None where it gives nothing there, or hides it in a star."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    if position is None or len(call.args) <= position:
        return None
    arg = call.args[position]
    is_positional = arg.keyword is None and not any(one.star for one in call.args[: position + 1])
    return arg.value if is_positional else None


def input_and_target(call: cst.Call) -> list[cst.BaseExpression]:
    """What a loss is given, its input and its target first, also where they are named the other way round."""
    named = [argument_value(call, "input", 0), argument_value(call, "target", 1)]
    first = [one for one in named if one is not None]
    return [*first, *(arg.value for arg in call.args if arg.value not in first)]


@dataclasses.dataclass(eq=False)
class Class:
    """A class statement; `methods` maps names to the functions defined directly in its body."""

    node: cst.ClassDef
    scope: Function
    methods: dict[str, Function] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.node.name.value

    @property
    def fields(self) -> list[str]:
        """What a dataclass or a NamedTuple is given in this order: the names that are annotated in its body."""
        lines = [line.body[0] for line in self.node.body.body if isinstance(line, cst.SimpleStatementLine)]
        targets = [one.target for one in lines if isinstance(one, cst.AnnAssign)]
        return [one.value for one in targets if isinstance(one, cst.Name)] if "__init__" not in self.methods else []


@dataclasses.dataclass(eq=False)
class Function:
    """A function, a method, a lambda, or a module itself (then `node` is the module and `parent` is None)."""

    node: cst.FunctionDef | cst.Lambda | cst.Module
    parent: Function | None
    owner: Class | None = None
    body: Block = dataclasses.field(init=False)

    @property
    def name(self) -> str:
        """Of a lambda the variable that its statement gives it to, where there is one."""
        if isinstance(self.node, cst.FunctionDef):
            return self.node.name.value
        return "<module>" if self.is_module else self._name_of_lambda

    @cached_property
    def _name_of_lambda(self) -> str:
        line = self.body.statements[0].line
        assigned = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if not isinstance(assigned, cst.Assign) or assigned.value is not self.node or len(assigned.targets) != 1:
            return "<lambda>"
        target = assigned.targets[0].target
        return target.value if isinstance(target, cst.Name) else "<lambda>"

    @property
    def is_module(self) -> bool:
        return isinstance(self.node, cst.Module)

    @property
    def is_lambda(self) -> bool:
        """True for an expression: its body is one statement, which returns it, and in which no other fits."""
        return isinstance(self.node, cst.Lambda)

    @property
    def root(self) -> Function:
        """The module that it stands in."""
        current = self
        while current.parent is not None:
            current = current.parent
        return current

    @property
    def around(self) -> list[Function]:
        """Itself, and the functions that it stands in, up to the module."""
        found: list[Function] = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found

    @property
    def whole(self) -> Function:
        """The method or the function of a module that it stands in: local functions see its parameters."""
        return next(one for one in self.around if one.owner is not None or one.parent is None or one.parent.is_module)

    @property
    def outermost(self) -> Function:
        """The function or method around it that stands in no other one; of a module itself."""
        current = self
        while current.parent is not None and not current.parent.is_module:
            current = current.parent
        return current

    @property
    def signature(self) -> cst.Parameters:
        """All of its parameters; a module has none."""
        return cst.Parameters() if isinstance(self.node, cst.Module) else self.node.params

    @property
    def decorators(self) -> Sequence[cst.Decorator]:
        return self.node.decorators if isinstance(self.node, cst.FunctionDef) else ()

    @cached_property
    def parameters(self) -> tuple[cst.Param, ...]:
        """Every parameter that can be given by name or position; `*args` and `**kwargs` left out."""
        params = self.signature
        return (*params.posonly_params, *params.params, *params.kwonly_params)

    @cached_property
    def is_static(self) -> bool:
        return self.has_decorator("staticmethod")

    @property
    def is_method(self) -> bool:
        """True where the first parameter is the instance (or the class)."""
        return self.owner is not None and not self.is_static

    @cached_property
    def instance(self) -> str | None:
        """What a method calls its instance: `self`. None for functions, and for methods of the class."""
        return None if self.has_decorator("classmethod") else self.receiver

    @property
    def method(self) -> Function | None:
        """The method with an instance that it is, or is defined in."""
        return next((one for one in self.around if one.instance is not None), None)

    @property
    def receiver(self) -> str | None:
        """What a method calls its instance (or its class): `self`. None for functions."""
        return self.parameters[0].name.value if self.is_method and self.parameters else None

    @property
    def is_of_network(self) -> bool:
        """True for the methods of a class with a `forward`."""
        return self.owner is not None and "forward" in self.owner.methods

    @cached_property
    def is_property(self) -> bool:
        """True where reading an attribute runs it: what looks like its call is one of what it returns."""
        return self.has_decorator("property") or self.has_decorator("cached_property")

    def has_decorator(self, name: str) -> bool:
        named = (one.decorator for one in self.decorators)
        return any(isinstance(one, cst.Name) and one.value == name for one in named)

    def descendants(self) -> Iterator[Statement]:
        """Every statement of its body, in source order."""
        return self.body.descendants()

    def encloses(self, other: Function) -> bool:
        """True where `other` is this function or is defined inside it."""
        current: Function | None = other
        while current is not None:
            if current is self:
                return True
            current = current.parent
        return False


@dataclasses.dataclass(eq=False)
class Block:
    """A list of statements with one owner: a compound statement's arm, a function's body, the module."""

    function: Function
    owner: Statement | None
    arm: str
    node: cst.CSTNode
    statements: list[Statement] = dataclasses.field(default_factory=list)

    def descendants(self) -> Iterator[Statement]:
        """Every statement of it, and of the blocks in it, in source order."""
        for statement in self.statements:
            yield from statement.descendants()


@dataclasses.dataclass(eq=False)
class Statement:
    """One small statement or one compound statement.

    `line` is the LibCST statement that the edit machinery replaces: for a small statement the line that
    holds it (several small statements can share one), for a compound statement the node itself.
    """

    node: cst.BaseSmallStatement | cst.BaseCompoundStatement
    line: cst.CSTNode
    block: Block
    index: int
    blocks: list[Block] = dataclasses.field(default_factory=list)

    @property
    def function(self) -> Function:
        return self.block.function

    @property
    def is_loop(self) -> bool:
        return isinstance(self.node, (cst.For, cst.While))

    @property
    def chooses(self) -> bool:
        """True where one arm at most runs."""
        return isinstance(self.node, (cst.If, cst.Match))

    @property
    def leaves(self) -> bool:
        """True where nothing of its block runs after it: a jump, `sys.exit()` and `exit()`."""
        value = self.node.value if isinstance(self.node, cst.Expr) else None
        if not isinstance(value, cst.Call):
            return isinstance(self.node, _JUMPS)
        func = value.func
        if isinstance(func, cst.Name):
            return func.value in ("exit", "quit")
        return isinstance(func, cst.Attribute) and called_name(value) in ("exit", "_exit") and _is_of_python(func.value)

    @property
    def is_elif(self) -> bool:
        outer = self.block.owner
        return outer is not None and isinstance(outer.node, cst.If) and outer.node.orelse is self.node

    def path(self) -> list[Statement]:
        """The statements from the outermost of the function down to this one."""
        chain: list[Statement] = []
        current: Statement | None = self
        while current is not None:
            chain.append(current)
            current = current.block.owner
        return chain[::-1]

    @property
    def has_no_other_arm(self) -> bool:
        """True under an `if` without an `else`: nothing runs in its place where the condition does not hold."""
        return any(isinstance(outer.node, cst.If) and outer.node.orelse is None for outer in self.path()[:-1])

    @property
    def order(self) -> tuple[int, ...]:
        """Compares as the source order of the statements of one function."""
        return tuple(step.index for step in self.path())

    def inside(self, other: Statement) -> bool:
        """True where this statement is `other` or lies somewhere in its blocks."""
        current: Statement | None = self
        while current is not None:
            if current is other:
                return True
            current = current.block.owner
        return False

    def runs_before(self, other: Statement) -> bool:
        """True where it has certainly run before another statement does, in each round."""
        return any(outer.block is self.block and outer.index > self.index for outer in other.path())

    def arm_of(self, node: cst.CSTNode) -> str | None:
        """Which arm of the compound statement `node` this statement lies in, if any."""
        current: Statement | None = self
        while current is not None:
            owner = current.block.owner
            if owner is not None and owner.node is node:
                return current.block.arm
            current = owner
        return None

    def excludes(self, other: Statement) -> bool:
        """True where the two stand in different arms of one `if` or `match`."""
        arms = ((self.arm_of(one.node), other.arm_of(one.node)) for one in self.path()[:-1] if one.chooses)
        return any(None not in (mine, its) and mine != its for mine, its in arms)

    def next_siblings(self) -> list[Statement]:
        return self.block.statements[self.index + 1 :]

    def follower(self) -> Statement | None:
        """The next statement of the function that is not inside of this one."""
        return next((later for outer in reversed(self.path()) for later in outer.next_siblings()), None)

    def descendants(self) -> Iterator[Statement]:
        """This statement and every statement in its blocks, in source order."""
        yield self
        for block in self.blocks:
            yield from block.descendants()


class Tree:
    """Parents, statements, functions and classes of some modules; `roots` are the modules as functions.

    Statements that are `hidden` are none of those that are gone through, nor is anything in them.
    """

    def __init__(self, modules: Sequence[cst.Module], hidden: Collection[cst.CSTNode] = ()) -> None:
        self._hidden = frozenset(hidden)
        self._parts = [grown(module) for module in modules]
        self.roots = [part.root for part in self._parts]
        self.parents = _together(part.parents for part in self._parts)
        self.statements = _together(part.statements for part in self._parts)
        self.function_at = _together(part.function_at for part in self._parts)
        self.class_at = _together(part.class_at for part in self._parts)
        self._holder = _together(part.holder for part in self._parts)
        self._root_at: dict[cst.CSTNode, Function] = {part.root.node: part.root for part in self._parts}
        self._part_of = {part.root: part for part in self._parts}
        self.functions = [one for part in self._parts for one in part.functions if not self._is_hidden_at(one.node)]
        self.classes = [one for part in self._parts for one in part.classes if not self._is_hidden_at(one.node)]

    def is_hidden(self, statement: Statement) -> bool:
        """True for hidden statements, and for all that stands in them."""
        return self.is_within(statement, self._hidden)

    def _is_hidden_at(self, node: cst.CSTNode) -> bool:
        """The same for a definition; a module is none."""
        return bool(self._hidden) and node in self.statements and self.is_hidden(self.statements[node])

    def is_within(self, statement: Statement, nodes: Collection[cst.CSTNode]) -> bool:
        """True for the statements of `nodes`, and for all that stands in them."""
        if any(one.node in nodes for one in statement.path()):
            return True
        holder = self.statements.get(statement.function.node)
        return holder is not None and self.is_within(holder, nodes)

    def statement_of(self, node: cst.CSTNode) -> Statement:
        """The statement whose own expressions hold `node` (a compound statement for its header)."""
        current = node
        while current not in self._holder:
            current = self.parents[current]
        return self._holder[current]

    def function_of(self, node: cst.CSTNode) -> Function:
        return self.statement_of(node).function

    def root_of(self, node: cst.CSTNode) -> Function:
        """The module that holds `node`."""
        current: cst.CSTNode | None = node
        while current is not None and current not in self._holder:
            if current in self._root_at:
                return self._root_at[current]
            current = self.parents.get(current)
        return self._holder[current].function.root if current is not None else self.roots[0]

    def is_label(self, node: cst.CSTNode) -> bool:
        """True for the name of an attribute and the keyword of an argument: no expressions of their own."""
        parent = self.parents.get(node)
        if type(parent) is cst.Attribute:  # faster than isinstance, which asks LibCST's abstract classes
            return parent.attr is node
        return type(parent) is cst.Arg and parent.keyword is node

    def call_of(self, func: cst.CSTNode) -> cst.Call | None:
        """The call in which an expression is what is called."""
        parent = self.parents.get(func)
        return parent if isinstance(parent, cst.Call) and parent.func is func else None

    def taker(self, given: cst.CSTNode) -> cst.Call | None:
        """The call that an expression is an argument of."""
        arg = self.parents.get(given)
        call = self.parents.get(arg) if isinstance(arg, cst.Arg) else None
        return call if isinstance(call, cst.Call) else None

    def owner_of(self, block: Block) -> Statement | None:
        """The statement that a block belongs to: the `def` for the body of a function, None for the module."""
        if block.owner is None and not block.function.is_module:
            return self.statements[block.function.node]
        return block.owner

    def all_statements(self) -> Iterator[Statement]:
        """Every statement of the modules, function bodies included, in source order of their blocks."""
        every = chain.from_iterable(part.all_statements for part in self._parts)
        return (one for one in every if not self.is_hidden(one)) if self._hidden else every

    def every(self, kind: type[_Node]) -> Iterator[tuple[_Node, Statement]]:
        """Every node of a class of nodes that stands in an expression, with its statement, in their order."""
        for part in self._parts:
            for node, statement in part.by_kind.get(kind, ()):
                assert isinstance(node, kind)
                if not self._hidden or not self.is_hidden(statement):
                    yield node, statement

    def expressions(self, statement: Statement) -> Sequence[cst.CSTNode]:
        """Every node that belongs to the statement itself: not to its blocks, not to nested functions."""
        return self._part_of[statement.function.root].expressions(statement)

    def calls(self, statement: Statement) -> Sequence[cst.Call]:
        """The calls among them."""
        return self._part_of[statement.function.root].calls(statement)


@lru_cache(KEPT_MODULES)  # a module is a part of many units, and is never changed in place
def grown(module: cst.Module) -> _ModuleTree:
    """The tree of a module."""
    return _ModuleTree(module)


def _together(parts: Iterable[dict[cst.CSTNode, _Value]]) -> dict[cst.CSTNode, _Value]:
    together: dict[cst.CSTNode, _Value] = {}
    for part in parts:
        together |= part  # this asks no node for its hash again
    return together


class _ModuleTree:
    """The same of one module, whatever others it is looked at with."""

    def __init__(self, module: cst.Module) -> None:
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.statements: dict[cst.CSTNode, Statement] = {}
        self.holder: dict[cst.CSTNode, Statement] = {}
        self.function_at: dict[cst.CSTNode, Function] = {}
        self.class_at: dict[cst.CSTNode, Class] = {}
        self._expressions: dict[Statement, list[cst.CSTNode]] = {}
        self._calls: dict[Statement, list[cst.Call]] = {}
        self.root = self._add_module(module)

    def expressions(self, statement: Statement) -> Sequence[cst.CSTNode]:
        found = self._expressions.get(statement)
        if found is None:  # everybody asks for them, for every statement
            found = [node for part in _own_parts(statement.node) for node in _walk_here(part)]
            self._expressions[statement] = found
        return found

    def calls(self, statement: Statement) -> Sequence[cst.Call]:
        found = self._calls.get(statement)
        if found is None:
            found = [node for node in self.expressions(statement) if isinstance(node, cst.Call)]
            self._calls[statement] = found
        return found

    @cached_property
    def all_statements(self) -> list[Statement]:
        return [statement for function in self.functions for statement in function.descendants()]

    @cached_property
    def by_kind(self) -> Mapping[type[cst.CSTNode], Sequence[tuple[cst.CSTNode, Statement]]]:
        found: dict[type[cst.CSTNode], list[tuple[cst.CSTNode, Statement]]] = {}
        for statement in self.all_statements:
            for node in self.expressions(statement):
                found.setdefault(type(node), []).append((node, statement))
        return found

    def _add_module(self, module: cst.Module) -> Function:
        root = Function(module, None)
        self.functions.append(root)
        root.body = Block(root, None, "body", module)
        self._fill(root.body, module.body, None)
        return root

    def _fill(self, block: Block, body: object, owner: Class | None) -> None:
        assert isinstance(body, (list, tuple))
        for line in body:
            if isinstance(line, cst.SimpleStatementLine):
                for small in line.body:
                    self._add(block, small, line, owner)
            else:
                self._add(block, line, line, owner)

    def _add(self, block: Block, node: cst.CSTNode, line: cst.CSTNode, owner: Class | None) -> None:
        assert isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        statement = Statement(node, line, block, len(block.statements))
        block.statements.append(statement)
        self.statements[node] = statement
        self.holder[node] = statement
        for part in _own_parts(node):
            self._relate(part, node, statement)
        if isinstance(node, cst.FunctionDef):
            self._add_function(node, block, owner)
        elif isinstance(node, cst.ClassDef):
            self._add_class(node, statement)
        else:
            for arm, suite in _arms(node):
                child = Block(block.function, statement, arm, suite)
                statement.blocks.append(child)
                if isinstance(suite, cst.If):
                    self._add(child, suite, suite, owner)
                else:
                    self._fill_suite(child, suite, owner)

    def _fill_suite(self, block: Block, suite: cst.CSTNode, owner: Class | None) -> None:
        if isinstance(suite, cst.SimpleStatementSuite):
            for small in suite.body:
                self._add(block, small, suite, owner)
        elif isinstance(suite, cst.IndentedBlock):
            self._fill(block, suite.body, owner)

    def _add_function(self, node: cst.FunctionDef, block: Block, owner: Class | None) -> None:
        function = Function(node, block.function, owner)
        self.functions.append(function)
        self.function_at[node] = function
        if owner is not None:
            if not any(function.name in names_in(one) for one in node.decorators):  # `@rate.setter` keeps the getter
                owner.methods[function.name] = function
        function.body = Block(function, None, "body", node.body)
        self._fill_suite(function.body, node.body, None)

    def _add_class(self, node: cst.ClassDef, statement: Statement) -> None:
        owner = Class(node, statement.function)
        self.classes.append(owner)
        self.class_at[node] = owner
        child = Block(statement.function, statement, "class", node.body)
        statement.blocks.append(child)
        self._fill_suite(child, node.body, owner)

    def _relate(self, part: cst.CSTNode, parent: cst.CSTNode, statement: Statement) -> None:
        self.parents[part] = parent
        stack = [part]
        while stack:
            current = stack.pop()
            self.holder[current] = statement
            for child in children(current):
                self.parents[child] = current
                if child is not _lambda_body(current):
                    stack.append(child)
            if isinstance(current, cst.Lambda):
                self._add_lambda(current, statement)

    def _add_lambda(self, node: cst.Lambda, statement: Statement) -> None:
        """A function whose body returns an expression."""
        function = Function(node, statement.function)
        self.functions.append(function)
        self.function_at[node] = function
        self.statements[node] = statement
        function.body = Block(function, None, "body", node)
        returns = cst.Return(node.body)
        self._add(function.body, returns, statement.line, None)
        self.parents[returns] = node


def _is_of_python(module: cst.BaseExpression) -> bool:
    return isinstance(module, cst.Name) and module.value in ("sys", "os")


def targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What the node of a statement binds itself, by assignment, `for` or `with`; of tuples, their elements."""
    waiting: list[cst.BaseExpression] = []
    if isinstance(node, cst.Assign):
        waiting = [target.target for target in node.targets]
    elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For)):
        waiting = [node.target]
    elif isinstance(node, cst.With):
        waiting = [item.asname.name for item in node.items if item.asname is not None]
    found: list[cst.BaseExpression] = []
    while waiting:
        target = waiting.pop()
        if isinstance(target, (cst.Tuple, cst.List)):
            waiting.extend(element.value for element in target.elements)
        else:
            found.append(target)
    return found


def _arms(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """The arms of a compound statement with their suites; an `elif` is an `else` holding an `if`."""
    if isinstance(node, (cst.If, cst.For, cst.While, cst.With, cst.Try, cst.TryStar)):
        yield "body", node.body
    if isinstance(node, (cst.Try, cst.TryStar)):
        handlers: Sequence[cst.ExceptHandler | cst.ExceptStarHandler] = node.handlers
        for number, handler in enumerate(handlers):
            yield f"except {number}", handler.body
    if isinstance(node, (cst.If, cst.For, cst.While, cst.Try, cst.TryStar)) and node.orelse is not None:
        orelse = node.orelse
        yield "else", orelse if isinstance(orelse, cst.If) else orelse.body
    if isinstance(node, (cst.Try, cst.TryStar)) and node.finalbody is not None:
        yield "finally", node.finalbody.body
    if isinstance(node, cst.Match):
        for number, case in enumerate(node.cases):
            yield f"case {number}", case.body


def _own_parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of a statement that run with it: everything but the blocks."""
    if isinstance(node, cst.Match):
        yield node.subject
        for case in node.cases:
            yield case.pattern
            if case.guard is not None:
                yield case.guard
        return
    for child in children(node):
        if isinstance(child, (cst.BaseSuite, cst.Else, cst.Finally)):
            continue
        if isinstance(child, cst.If) and isinstance(node, cst.If):
            continue
        if isinstance(child, (cst.ExceptHandler, cst.ExceptStarHandler)):
            if child.type is not None:
                yield child.type
            if child.name is not None:
                yield child.name
            continue
        yield child


def lowest_block(statements: list[Statement]) -> Block:
    """The innermost block of a function that holds all of the statements."""
    trails = [statement.path() for statement in statements]
    block = trails[0][0].block
    for level in zip(*trails, strict=False):
        if any(statement.block is not level[0].block for statement in level):
            break
        block = level[0].block
    return block
