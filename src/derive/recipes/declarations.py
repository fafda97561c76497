# SPDX-License-Identifier: Apache-2.0
"""Which keys ``recipes/*.toml`` may have, and what each holds. They are explained on docs/recipes.md.

Core: no IO. Standard library only: every rendering reads recipes, and a parser of models takes longer than the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from derive.recipes import forms
from derive.recipes.forms import Form

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """A table whose keys are free: each name is of a form, and each value as said."""

    names: Form
    values: Spec


Spec: TypeAlias = "Form | Each | Mapping[str, Spec]"

_PHASE: Mapping[str, Spec] = {"floor": forms.SIZE, "interval": forms.INTERVAL, "wait": forms.COUNT}

SHARED: Mapping[str, Spec] = {
    "platform": forms.one_of("linux/arm64", "linux/amd64"),
    "transport": forms.NAME,
    "tuning": forms.NAME,
    "kernel-backend": forms.one_of("b12x", "tilelang"),
    "needs": forms.NAMES,
    "model": {
        "set": forms.NAME,
        "huggingface": forms.NAME,
        "target": forms.ABSOLUTE,
        "hidden-size": forms.COUNT,
    },
    "service": {
        "name": forms.NAME,
        "program": forms.one_of("vllm", "plain"),
        "entrypoint": forms.ENTRYPOINT,
        "positional": forms.TEXTS,
        "port": forms.PORT,
        "master-port": forms.PORT,
        "ready": {"path": forms.URL_PATH, "timeout": forms.COUNT},
    },
    "arguments": Each(names=forms.OPTION, values=forms.ARGUMENT),
    "environment": Each(names=forms.VARIABLE, values=forms.VALUE),
    "mounts": Each(
        names=forms.NAME,
        values={"source": forms.SOURCE, "target": forms.ABSOLUTE, "mode": forms.one_of("ro", "rw")},
    ),
    "cache": {"target": forms.ABSOLUTE},
    "container": {
        "network": forms.one_of("host", "bridge", "none"),
        "ipc": forms.one_of("host", "private"),
        "gpus": forms.GPUS,
        "devices": forms.WORDS,
        "add-capabilities": forms.patterns("a list of distinct names as in IPC_LOCK", "[A-Z][A-Z0-9_]*"),
        "ulimits": Each(names=forms.ULIMIT, values=forms.LIMIT),
        "security-options": forms.WORDS,
        "shared-memory": forms.SOME_SIZE,
        "memory": forms.MEMORY,
        "memory-swap": forms.MEMORY,
        "device-cgroup-rules": forms.WORDS,
        "stop": forms.COUNT,
    },
    "guard": {"startup": _PHASE, "steady": _PHASE},
    "host": {
        "kernel": forms.TEXT,
        "page-size": forms.SOME_SIZE,
        "memory-saver": forms.SWITCH,
        "memory-saver-version": forms.TEXT,
        "memory-saver-srcversion": forms.pattern("20 to 24 hexadecimal digits, in capitals", "[0-9A-F]{20,24}"),
        "driver": forms.TEXT,
        "transparent-huge-pages": forms.one_of("always", "madvise", "never"),
        "min-free-kbytes": forms.COUNT,
        "swap": forms.SIZE,
        "swap-file": forms.ABSOLUTE,
        "memory-unit": forms.pattern("the name of a systemd service", r"[A-Za-z0-9_.@-]+\.service"),
    },
    "memory": Each(names=forms.PROSE, values=forms.JSON),
    "promotion": {"launch-enabled": forms.SWITCH, "benchmark": forms.TEXT, "branch": forms.TEXT},
    "dropped": Each(names=forms.TEXT, values=forms.PROSE),
}
"""What may stand for all shapes, and in each shape."""

SHAPE: Mapping[str, Spec] = {**SHARED, "doc": forms.PROSE, "cabling": forms.one_of("triangle", "ring4")}
"""What may stand in ``[shapes.NAME]``."""

TOP: Mapping[str, Spec] = {
    "format": Form(expects=str(FORMAT), accepts=lambda value: value == FORMAT and value is not True),
    "image": forms.NAME,
    "default-shape": forms.NAME,
    **SHARED,
    "shapes": Each(names=forms.NAME, values=SHAPE),
}
"""What may stand at the top of the file."""

REQUIRED_ABOVE = ("format", "image", "default-shape", "shapes", "service")
"""Keys that the file must have."""

REQUIRED = (
    ("cabling",),
    ("transport",),
    ("service", "name"),
    ("service", "program"),
    ("service", "port"),
    ("service", "ready", "path"),
    ("service", "ready", "timeout"),
)
"""Keys that a shape must have once what is shared is merged in."""

REQUIRED_IN = {
    ("model",): ("set", "huggingface", "target"),
    ("cache",): ("target",),
    ("guard", "startup"): ("floor", "interval", "wait"),
    ("guard", "steady"): ("floor", "interval"),
}
"""Keys that a table must have where a shape has the table at all."""
