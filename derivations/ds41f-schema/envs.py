# SPDX-License-Identifier: Apache-2.0
"""The variables that vLLM has a table of: what each is turned into, its default, and its choices."""

from __future__ import annotations

import ast

from document import plain
from things import FunctionOf, Lambda, Unknown
from tree import Assigned, Module, NotUnderstood, Tree
from values import Values

_CONVERSIONS = {"int": "int", "maybe_convert_int": "int", "maybe_convert_bool": "int", "float": "float"}
_JSON = ("json.loads", "maybe_convert_json_str_or_file")
_CHOICES = ("env_with_choices", "env_list_with_choices", "env_set_with_choices")


def own_variables(tree: Tree, values: Values) -> dict[str, object]:
    """Return the variables of ``vllm.envs``, each with its kind, its default's text, and its choices."""
    module = tree.need("vllm.envs")
    table = module.names["environment_variables"]
    assert isinstance(table, Assigned)
    assert isinstance(table.value, ast.Dict)
    found = {}
    for key, value in zip(table.value.keys, table.value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found[key.value] = _own(key.value, value, module, values)
    return dict(sorted(found.items()))


def _own(name: str, node: ast.expr, module: Module, values: Values) -> dict[str, object]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _CHOICES:
        given = [values.of(one, module) for one in node.args]
        given += [values.of(one.value, module) for one in node.keywords if one.arg in ("default", "choices")]
        is_exact = not any(one.arg == "case_sensitive" for one in node.keywords)
        made = {"kind": "choice" if ast.unparse(node.func) == _CHOICES[0] else "choices", "exact": is_exact}
        choices = plain(given[2]) if isinstance(given[2], list) else None
        return made | ({"choices": choices} if choices else {}) | _default(given[1])
    value = _value(node, module, values)
    body: ast.AST = value.node if isinstance(value, Lambda | FunctionOf) else node
    return {"kind": _kind(name, body)} | _read_default(name, body, module, values)


def _kind(name: str, body: ast.AST) -> str:
    """Return what a variable's text is turned into: the conversion that stands around its reading."""
    for node in ast.walk(body):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            inside = [ast.unparse(one) for one in node.args]
            if any(f"'{name}'" in text for text in inside):
                if called in _CONVERSIONS:
                    return _CONVERSIONS[called]
                if called in _JSON:
                    return "json"
    return "text"


def _read_default(name: str, body: ast.AST, module: Module, values: Values) -> dict[str, object]:
    chosen = body.body if isinstance(body, ast.Lambda) else None
    if isinstance(chosen, ast.IfExp) and ast.unparse(chosen.test) == f"'{name}' in os.environ":
        return _default(_value(chosen.orelse, module, values))
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("environ.get", "getenv")):
            match node.args:
                case [ast.Constant(value=read), default] if read == name:
                    return _default(_value(default, module, values))
    return {}


def _value(node: ast.expr, module: Module, values: Values) -> object:
    try:
        return values.of(node, module)
    except NotUnderstood:
        return Unknown(ast.unparse(node))


def _default(value: object) -> dict[str, object]:
    """Return the default's entry: none where nothing stands for an absent variable."""
    if value is None or (isinstance(value, Unknown) and not value.text):
        return {}
    return {"default": plain(value)}
