# SPDX-License-Identifier: Apache-2.0
"""Reads marshalled objects of CPython 3.11 to 3.13 as data, by their structure: nothing is unmarshalled or run.

Core: no IO.

An interpreter's own reader takes only what its version wrote, and may crash on anything else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from derive.differ.model import Unread

_DEPTH = 200
_OBJECTS = 2_000_000
_TEXTS = {"t": "utf-8", "u": "utf-8", "a": "latin-1", "A": "latin-1", "z": "latin-1", "Z": "latin-1"}
_CONSTANTS = {"N": "None", "F": "False", "T": "True", ".": "...", "S": "StopIteration"}
_LISTS = {"(": "tuple", ")": "tuple", "[": "list", "<": "set", ">": "frozenset"}


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple, list, set, frozenset or dict, and what is in it in the order written."""

    kind: str
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """Any other object but code: its kind, and its value in words or bytes."""

    kind: str
    value: str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A code object: its numbers by name, its byte code, and its objects by name, as the file has them."""

    numbers: dict[str, int]
    code: Node
    objects: dict[str, Node]

    @property
    def name(self) -> str:
        """Return the qualified name of the function, class or module."""
        found = self.objects.get("qualname")
        return str(found.value) if isinstance(found, Atom) else "?"


Node: TypeAlias = Several | Atom | Code

_NUMBERS = ("argcount", "posonlyargcount", "kwonlyargcount", "stacksize", "flags")
_BEFORE_LINE = ("consts", "names", "localsplusnames", "localspluskinds", "filename", "name", "qualname")
_AFTER_LINE = ("linetable", "exceptiontable")


def read_marshalled(data: bytes) -> Node:
    """Return the object that ``data`` holds, to its end; raises Unread."""
    reader = _Reader(data)
    try:
        node = reader.node(0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Unread(f"not marshalled as it should be, near byte {reader.at}") from error
    if node is None or reader.at != len(data):
        raise Unread(f"{len(data) - reader.at} bytes after the object")
    return node


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._count = 0
        self._seen: list[Node] = []

    def _take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self._data):
            raise Unread(f"cut short at byte {self.at}")
        taken = self._data[self.at : self.at + size]
        self.at += size
        return taken

    def _number(self, form: str = "<i") -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def must(self, depth: int) -> Node:
        node = self.node(depth)
        if node is None:
            raise Unread(f"an object is missing at byte {self.at}")
        return node

    def node(self, depth: int) -> Node | None:
        """Read one object; None stands for the mark that ends a dict."""
        self._count += 1
        if depth > _DEPTH or self._count > _OBJECTS:
            raise Unread("nested too deeply, or too large")
        byte = self._take(1)[0]
        kind = chr(byte & 0x7F)
        place = None
        if byte & 0x80:
            place = len(self._seen)
            self._seen.append(Atom("ref", "to what it stands in"))
        node = self._of(kind, depth)
        if place is not None and node is not None:
            self._seen[place] = node
        return node

    def _of(self, kind: str, depth: int) -> Node | None:
        if kind == "0":
            return None
        if kind in _CONSTANTS:
            return Atom("constant", _CONSTANTS[kind])
        if kind in _LISTS:
            count = self._take(1)[0] if kind == ")" else self._number()
            if count < 0 or count > len(self._data):
                raise Unread(f"a count of {count} at byte {self.at}")
            return Several(_LISTS[kind], tuple(self.must(depth + 1) for _ in range(count)))
        if kind == "{":
            return self._dict(depth)
        if kind == "c":
            return self._code(depth)
        if kind == "r":
            index = self._number()
            if not 0 <= index < len(self._seen):
                raise Unread(f"a reference to nothing at byte {self.at}")
            return self._seen[index]
        return self._atom(kind)

    def _atom(self, kind: str) -> Atom:
        if kind in _TEXTS:
            size = self._take(1)[0] if kind in "zZ" else self._number()
            return Atom("str", self._take(size).decode(_TEXTS[kind], "backslashreplace"))
        match kind:
            case "s":
                return Atom("bytes", self._take(self._number()))
            case "i":
                return Atom("int", str(self._number()))
            case "I":
                return Atom("int", str(self._number("<q")))
            case "l":
                count = self._number()
                return Atom("int", ("-" if count < 0 else "") + "0x" + self._take(2 * abs(count))[::-1].hex())
            case "g":
                return Atom("float", self._take(8).hex())
            case "y":
                return Atom("complex", self._take(16).hex())
            case "f":
                return Atom("float", self._take(self._take(1)[0]).decode("latin-1"))
            case _:
                raise Unread(f"an object of unknown kind {kind!r} at byte {self.at - 1}")

    def _dict(self, depth: int) -> Several:
        items: list[Node] = []
        while (key := self.node(depth + 1)) is not None:
            items += (key, self.must(depth + 1))
        return Several("dict", tuple(items))

    def _code(self, depth: int) -> Code:
        numbers = {name: self._number() for name in _NUMBERS}
        code = self.must(depth + 1)
        objects = {name: self.must(depth + 1) for name in _BEFORE_LINE}
        numbers["firstlineno"] = self._number()
        objects |= {name: self.must(depth + 1) for name in _AFTER_LINE}
        return Code(numbers=numbers, code=code, objects=objects)
