# SPDX-License-Identifier: Apache-2.0
"""A recipe of few lines among the checkout's own locks, images and fabric, and what its shapes come to.

Edge: reads the checkout.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from derive.errors import Problem
from derive.project import load_launching
from derive.recipes.load import Recipe, load_recipe, read_recipe
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from support.cli import CHECKOUT

FILE = "recipes/small.toml"

SMALL = """\
format = 1
image = "ds41f"
default-shape = "ring"
transport = "nccl-ring"

[model]
set = "model"
huggingface = "deepseek-v4-1-flash-1017"
target = "/model"
hidden-size = 5120

[service]
name = "small"
program = "vllm"
positional = ["{model}"]
port = 8000
master-port = 9999
ready = { path = "/v1/models", timeout = 60 }

[arguments]
max-num-seqs = 4
max-num-batched-tokens = 512
speculative-config = { method = "dspark", num_speculative_tokens = 2 }

[environment]
SET = "here"
EMPTY = ""

[guard.startup]
floor = "5GiB"
interval = "0.25"
wait = 120

[guard.steady]
floor = "3GiB"
interval = "2"

[shapes.ring]
cabling = "ring4"
tuning = "tp4"

[shapes.triangle]
cabling = "triangle"
tuning = "tp3"
"""


@cache
def launching() -> dict[str, bytes]:
    """Return the checkout's files that decide launch files."""
    return load_launching(CHECKOUT)


def edited(*changes: tuple[str, str]) -> str:
    """Return the small recipe with texts replaced, each of which must be there."""
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def files(text: str = SMALL, others: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """Return the checkout's files with the small recipe among them, and others by their paths."""
    return {**launching(), FILE: text.encode(), **(others or {})}


def problems(text: str) -> list[Problem]:
    """Return everything that is wrong with a recipe."""
    return read_recipe(files(text), "small")[1]


def said(text: str) -> list[tuple[str, str]]:
    """Return key path and message of everything that is wrong with a recipe."""
    return [(one.where.removeprefix(f"{FILE}: "), one.message) for one in problems(text)]


def loaded(text: str = SMALL) -> Recipe:
    """Return a recipe without faults."""
    return load_recipe(files(text), "small")


def resolved(text: str = SMALL, shape: str | None = None) -> Resolved:
    """Return a shape of a recipe without faults."""
    return resolve(loaded(text), shape)
