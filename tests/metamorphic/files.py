"""The same program in other places: a script's body in `main`, its classes and functions in another file."""

from __future__ import annotations

import ast
import copy
from random import Random

from tests.metamorphic.moves import imports_for
from tests.metamorphic.program import ALONE, Program, module_name
from tests.metamorphic.scopes import FUNCTIONS, bound, captured, read
from tests.metamorphic.walk import fresh, start_of

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


def body_in_main(program: Program, random: Random) -> bool:
    """`def main():` around what a script does, and `if __name__ == "__main__": main()`"""
    return _scripts_in_main(program, is_asked=True)


def body_in_a_function(program: Program, random: Random) -> bool:
    """`def main():` around what a script does, and `main()`"""
    return _scripts_in_main(program, is_asked=False)


def classes_in_another_file(program: Program, random: Random) -> bool:
    """`from parts import Net`"""
    return _in_another_file(program, (ast.ClassDef,))


def functions_in_another_file(program: Program, random: Random) -> bool:
    """`from parts import train`"""
    return _in_another_file(program, FUNCTIONS)


def _scripts_in_main(program: Program, *, is_asked: bool) -> bool:
    done = False
    for path in program.scripts & {*program.files}:
        if not _is_imported(program, path):
            done = _in_main(program, program.files[path], is_asked) or done
    return done


def _in_main(program: Program, tree: ast.Module, is_asked: bool) -> bool:
    """What defines or imports stays at the top; what is done moves, and its names stay global where functions read them."""
    staying: list[ast.stmt] = []
    moved: list[ast.stmt] = []
    for statement in tree.body[start_of(tree) :]:
        is_import = isinstance(statement, (ast.Import, ast.ImportFrom)) or _only_imports(statement)
        if isinstance(statement, _DEFINITIONS) or (is_import and not moved):
            staying.append(statement)
        elif is_import or "__name__" in read(statement):
            return False
        else:
            moved.append(statement)
    names = bound(moved)
    if not moved or names & set().union(*(_needed_at_once(one) for one in staying)):
        return False
    if any(isinstance(one, (ast.Global, ast.Lambda)) or _is_star(one) for part in moved for one in ast.walk(part)):
        return False
    shared = sorted(names & (captured(tree.body) | {name for one in staying for name in read(one)}))
    main = fresh(program, "main")
    function = ast.parse(f"def {main}():\n    pass").body[0]
    function.body = [*([ast.Global(shared)] if shared else []), *moved]  # type: ignore[attr-defined]
    call = f"if __name__ == '__main__':\n    {main}()" if is_asked else f"{main}()"
    tree.body = [*tree.body[: start_of(tree)], *staying, function, *ast.parse(call).body]
    return True


def _is_star(node: ast.AST) -> bool:
    """`from apex.fp16_utils import *`, which stands at the top of a module only."""
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _needed_at_once(statement: ast.stmt) -> set[str]:
    """The names that a definition reads when it is made, or an import binds."""
    if isinstance(statement, FUNCTIONS):
        parts = [
            *statement.decorator_list,
            *statement.args.defaults,
            *(one for one in statement.args.kw_defaults if one),
        ]
        return read(parts) | {statement.name}
    return read(statement) | bound(statement)


def _only_imports(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Try):
        return False
    return all(
        isinstance(one, (ast.Import, ast.ImportFrom, ast.Assign, ast.Pass))
        for one in (*statement.body, *statement.orelse)
    ) and all(
        isinstance(one, (ast.Import, ast.ImportFrom, ast.Assign, ast.Pass))
        for way in statement.handlers
        for one in way.body
    )


def _is_imported(program: Program, path: str) -> bool:
    name = module_name(path).rpartition(".")[2]
    imports = [node for node in program.nodes() if isinstance(node, (ast.Import, ast.ImportFrom))]
    return any(name in ast.unparse(node) for node in imports)


def _in_another_file(program: Program, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Those definitions of a script alone that need nothing of it but imports and each other."""
    if {*program.files} != {ALONE} or program.others:
        return False
    tree = program.files[ALONE]
    chosen = [one for one in tree.body if isinstance(one, kinds) and not _is_rebound(tree, one)]
    imports: list[ast.stmt] | None = None
    while chosen:
        module = ast.Module(copy.deepcopy(chosen), [])
        imports = imports_for(tree, module)
        if imports is not None:
            break
        alone = [one for one in chosen if imports_for(tree, ast.Module([one, *chosen], [])) is not None]
        chosen = alone if len(alone) < len(chosen) else chosen[:-1]
    if not chosen or imports is None:
        return False
    name = fresh(program, "parts")
    program.files[f"{name}.py"] = ast.Module([*imports, *copy.deepcopy(chosen)], [])
    names = [ast.alias(one.name) for one in chosen]  # type: ignore[attr-defined]
    index = tree.body.index(chosen[0])
    tree.body = [one for one in tree.body if one not in chosen]
    tree.body.insert(index, ast.ImportFrom(name, names, 0))
    return True


def _is_rebound(tree: ast.Module, definition: ast.stmt) -> bool:
    name = definition.name  # type: ignore[attr-defined]
    is_global = any(isinstance(one, ast.Global) for one in ast.walk(definition))
    written = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)
    ]
    return is_global or bool(written) or sum(getattr(one, "name", None) == name for one in tree.body) > 1


REWRITES = {
    "a script's body in main": body_in_main,
    "a script's body in a function": body_in_a_function,
    "classes in another file": classes_in_another_file,
    "functions in another file": functions_in_another_file,
}
