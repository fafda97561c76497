# SPDX-License-Identifier: Apache-2.0
"""What entries a pinned schema's document is made of: each key's type, before anything is read from them.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from derive.toml import key_path

_TOP: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("image", "platform", "program", "derivation", "content"), (str,)),
    **dict.fromkeys(("parts", "readers", "options", "configs", "enums", "variables", "own"), (dict,)),
}
_OPTION: Mapping[str, tuple[type, ...]] = {
    "type": (str,),
    **dict.fromkeys(("names", "negative", "choices", "known"), (list,)),
    **dict.fromkeys(("registered", "repeated", "deprecated"), (bool,)),
    **dict.fromkeys(("enum", "config"), (str,)),
    "nargs": (str, int),
    "bounds": (dict,),
}
_FIELD: Mapping[str, tuple[type, ...]] = {"type": (list,), "given": (bool,), "converted": (bool,), "bounds": (dict,)}
_OWN: Mapping[str, tuple[type, ...]] = {"kind": (str,), "choices": (list,), "exact": (bool,)}
_ENUM: Mapping[str, tuple[type, ...]] = {"names": (list,), "values": (list,)}
_CONFIG: Mapping[str, tuple[type, ...]] = {"fields": (dict,), "extra": (str,)}
_TEXTS = ("names", "negative", "known")
_WORDS: Mapping[type, str] = {str: "text", dict: "an object", list: "a list", bool: "true or false", int: "a number"}


def entry_faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is of another type than derive writes: key path, and what was expected."""
    top = list(_of(document, _TOP, (), must=_TOP))
    if top:
        yield from top
        return
    for key in ("parts", "readers"):
        yield from _texts(document[key], (key,))
    yield from _entries(document, "options", _OPTION, must=("names", "type"))
    yield from _entries(document, "enums", _ENUM, must=_ENUM)
    yield from _entries(document, "own", _OWN)
    for name, readers in document["variables"].items():
        if not isinstance(readers, dict):
            yield _fault(("variables", name), (dict,))
        elif not all(isinstance(file, str) for file in readers.values()):
            yield from _texts(readers, ("variables", name))
    wrong = list(_entries(document, "configs", _CONFIG, must=_CONFIG))
    yield from wrong
    for name, config in document["configs"].items() if not wrong else ():
        yield from _entries(config, "fields", _FIELD, must=("type",), above=("configs", name))
    yield from _names(document)
    if not wrong:
        for name, config in document["configs"].items():
            for key, entry in config["fields"].items():
                types = entry.get("type") if isinstance(entry, dict) else None
                yield from _types(types, ("configs", name, "fields", key, "type"), document)


def _entries(
    tables: Mapping[str, Any],
    key: str,
    types: Mapping[str, tuple[type, ...]],
    *,
    must: Any = (),
    above: tuple[str, ...] = (),
) -> Iterator[str]:
    for name, entry in tables[key].items():
        path = (*above, key, name)
        if isinstance(entry, dict):
            yield from _of(entry, types, path, must=must)
        else:
            yield _fault(path, (dict,))


def _of(
    entry: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], path: tuple[str, ...], *, must: Any
) -> Iterator[str]:
    for key, wanted in types.items():
        value: Any = entry.get(key)
        if value is None and key not in must:
            continue
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            yield _fault((*path, key), wanted)
        elif isinstance(value, list) and key in _TEXTS and not all(isinstance(one, str) for one in value):
            yield f"{key_path((*path, key))}: not a list of texts"


def _texts(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        if not isinstance(value, str):
            yield _fault((*path, key), (str,))


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield enumerations and classes that options name, and that are not there."""
    for name, option in document["options"].items():
        for key, there in (("enum", "enums"), ("config", "configs")):
            wanted = option.get(key) if isinstance(option, dict) else None
            if isinstance(wanted, str) and wanted not in document[there]:
                yield f"{key_path(('options', name, key))}: no {wanted} in {there}"


def _types(types: Any, path: tuple[str, ...], document: Mapping[str, Any]) -> Iterator[str]:
    """Yield types of values that are none, and enumerations and classes among them that are not there."""
    for one in types if isinstance(types, list) else ():
        if isinstance(one, str):
            continue
        entries: list[tuple[str, Any]] = list(one.items()) if isinstance(one, dict) else []
        kind, what = entries[0] if len(entries) == 1 else ("", None)
        if kind in ("enum", "config"):
            if what not in document[f"{kind}s"]:
                yield f"{key_path(path)}: no {what} in {kind}s"
        elif kind not in ("choice", "list", "dict") or not isinstance(what, list):
            yield f"{key_path(path)}: no type of a value"
        elif kind != "choice":
            yield from _types(what, path, document)


def _fault(path: tuple[str, ...], wanted: tuple[type, ...]) -> str:
    return f"{key_path(path)}: not {' or '.join(_WORDS[one] for one in wanted)}"
