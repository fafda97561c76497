# SPDX-License-Identifier: Apache-2.0
"""Which variables of the environment a piece of Python or C reads, from its source.

A read is ``os.environ`` or ``getenv`` with a name; a call of a function that hands its argument on to one; or a name
given to something that is called after the environment (``env_bool("X")``, ``env_name="X"``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from mmap import mmap

_PYTHON = (
    re.compile(rb"environ|getenv"),
    re.compile(rb"[Ee][Nn][Vv]\w*\(\s*f?[\"'A-Z]|[Ee][Nn][Vv]\w*\s*=\s*[\[(]?\s*[\"']"),
)
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_LOUD = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_GETENV = re.compile(rb'\bgetenv(?:_s)?\s*\(\s*"([A-Z_][A-Z0-9_]*)"')
_TEXT = re.compile(rb"([A-Z][A-Z0-9_]*)\0")
_NAME_BYTE = re.compile(rb"[A-Za-z0-9_]")
_DIRECT = ("environ.get", "environ.pop", "environ.setdefault", "getenv", "environ.__contains__", "environ.__getitem__")


@dataclass(frozen=True, slots=True)
class Asked:
    """Expressions that are names of variables, if ``called`` is a helper; those of ``None`` are in any case.

    ``by`` are the functions around it, each with its parameters and the loops over them.
    """

    called: str | None
    names: tuple[ast.expr, ...]
    by: tuple[tuple[str, frozenset[str]], ...]


@dataclass(slots=True)
class Source:
    """What a parsed file asks of the environment, or may ask; ``constants`` are texts that names stand for in it."""

    constants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    about: list[ast.expr] = field(default_factory=list)

    def texts(self, node: ast.expr) -> tuple[str, ...]:
        """Return the texts that an expression stands for, as far as they stand here."""
        match node:
            case ast.Constant(value=str() as text):
                return (text,)
            case ast.Name(id=name):
                return self.constants.get(name, ())
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return tuple(text for one in elements for text in self.texts(one))
            case _:
                return ()


def may_read(data: bytes) -> bool:
    """Say whether a Python file has in it what reads any variable: most have not, and need no parsing."""
    return any(pattern.search(data) for pattern in _PYTHON)


def may_call(known: Iterable[str]) -> re.Pattern[bytes]:
    """Return what a Python file has in it that names a variable to one of some helpers."""
    names = "|".join(map(re.escape, sorted(known))) or "(?!)"
    return re.compile(rf"\b(?:{names})\(\s*[\"'][A-Z][A-Z0-9]*_".encode())


def parse(data: bytes) -> Source | None:
    """Read a file; None for what is no Python of this version (templates, Python 2)."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None
    source = Source()
    for node in ast.walk(tree):  # the outermost first, which what is further in does not hide
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                texts = source.texts(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                texts = source.texts(value)
            case (
                ast.For(target=ast.Name(id=name), iter=value) | ast.comprehension(target=ast.Name(id=name), iter=value)
            ):
                texts = source.texts(value)
            case _:
                continue
        if texts:
            source.constants.setdefault(name, texts)
    _gather(tree, source)
    return source


def _gather(tree: ast.Module, source: Source) -> None:
    waiting: list[tuple[ast.AST, tuple[tuple[str, frozenset[str]], ...]]] = [(tree, ())]
    while waiting:
        node, by = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                by = (*by, (node.name, _parameters(node)))
            case ast.Call():
                _call(node, by, source)
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if dotted(value).endswith("environ"):
                source.asked.append(Asked(None, (index,), by))
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if dotted(right).endswith("environ"):
                    source.asked.append(Asked(None, (left,), by))
        waiting.extend((child, by) for child in ast.iter_child_nodes(node))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names that hold what a function was given, in loops over it too."""
    arguments = node.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {arguments.vararg.arg} if arguments.vararg else set()
    for one in ast.walk(node) if arguments.vararg else ():
        if isinstance(one, ast.For | ast.comprehension) and isinstance(one.target, ast.Name):
            names |= {one.target.id} if dotted(one.iter) in names else set()
    return frozenset(names)


def _call(node: ast.Call, by: tuple[tuple[str, frozenset[str]], ...], source: Source) -> None:
    called = dotted(node.func)
    last = called.rpartition(".")[2]
    if called.endswith(_DIRECT):
        source.asked.append(Asked(None, tuple(node.args[:1]), by))
        return
    given = tuple(one for one in node.args if isinstance(one, ast.Name | ast.JoinedStr) or source.texts(one))
    if given and last:
        source.asked.append(Asked(last, given, by))
    if "env" in last.lower():
        source.about += node.args[:1]
    source.about += (one.value for one in node.keywords if one.arg and "env" in one.arg.lower())


def helpers(sources: Iterable[Source]) -> frozenset[str]:
    """Return the functions that hand a parameter on to a read, or to one another: their callers name variables."""
    sources = list(sources)
    known: frozenset[str] = frozenset()
    for _ in range(3):
        found = {name for source in sources for one in source.asked for name in _handing_on(one, known)}
        known |= found
    return known


def _handing_on(asked: Asked, known: frozenset[str]) -> Iterator[str]:
    if asked.called is None or asked.called in known:
        for name, parameters in asked.by:
            if any(isinstance(one, ast.Name) and one.id in parameters for one in asked.names):
                yield name


def python_reads(source: Source, known: frozenset[str], families: Iterable[str] = ()) -> Iterator[str]:
    """Yield the variables that a file reads; ``known`` are helpers, ``families`` what composed names begin with."""
    families = tuple(families)
    for asked in source.asked:
        if asked.called is None:
            yield from _named(asked.names, source, _NAME, families)
        elif asked.called in known:
            yield from _named(asked.names, source, _LOUD, families)
    for one in source.about:
        own = [text for text in source.texts(one) if families and not text.startswith(families)]
        yield from (f"{family}_{text}" for text in own for family in families if _NAME.fullmatch(text))
        if not own:
            yield from _named((one,), source, _LOUD, families)


def _named(
    nodes: Iterable[ast.expr], source: Source, pattern: re.Pattern[str], families: tuple[str, ...]
) -> Iterator[str]:
    for node in nodes:
        yield from (text for text in source.texts(node) if pattern.fullmatch(text))
        match node:
            # A name of which only the end stands in the source.
            case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str() as tail)]):
                yield from (family + tail for family in families if re.fullmatch(r"_[A-Z0-9_]+", tail))


def c_reads(data: bytes) -> Iterator[str]:
    """Yield the variables that C, C++ or CUDA source reads."""
    yield from (found[1].decode() for found in _GETENV.finditer(data))


def library_reads(data: mmap, prefixes: Iterable[str]) -> Iterator[str]:
    """Yield the texts of a compiled library that begin like the name of a variable, and are written like one.

    Linkers keep one text in the end of another (``... using NCCL_IB_HCA``): only the end of it is sure to be an end.
    """
    for prefix in prefixes:
        at = data.find(prefix.encode())
        while at >= 0:
            found = _TEXT.match(data, at)
            if found is not None and not _NAME_BYTE.match(data, at - 1):
                yield found[1].decode()
            at = data.find(prefix.encode(), at + 1)


def dotted(node: ast.expr) -> str:
    """Return the names of an attribute's chain, as far as it is one: quicker than writing the source out."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else [""]), *reversed(parts)])
