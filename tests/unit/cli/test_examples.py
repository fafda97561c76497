# SPDX-License-Identifier: Apache-2.0
"""The examples that --help shows are command lines that the commands take."""

from __future__ import annotations

import pkgutil
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import derive.cli
from derive.cli.main import COMMANDS, TAKE_WORDS, make_parser

HEX = "ab" * 32


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = import_module(found.name)
        if hasattr(module, "EXAMPLES"):
            yield module


def examples() -> Iterator[str]:
    """Yield each example without the remark that stands two spaces after it, and with a digest for <...>."""
    for module in modules(derive.cli):
        for line in module.EXAMPLES.splitlines():
            text = re.sub("<[^>]*>", HEX, line.strip().partition("  ")[0])
            if text.startswith("derive "):
                yield text


EXAMPLES = sorted(set(examples()))


def test_there_are_examples_of_every_command() -> None:
    assert {text.split()[1] for text in EXAMPLES} >= set(COMMANDS)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_help_is_taken(text: str) -> None:
    words = shlex.split(re.split("[>|;&]", text)[0])[1:]
    if words[0] in TAKE_WORDS and "--" in words:
        words = words[: words.index("--")]
    assert make_parser(words).parse_args(words).command == words[0]
