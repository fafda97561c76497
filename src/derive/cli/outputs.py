# SPDX-License-Identifier: Apache-2.0
"""What to print where a file that was asked for may itself go to standard output.

Edge: standard streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from derive.cli.console import answer, note, wants_json
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse


def answer_beside(args: argparse.Namespace, output: str | None) -> Callable[[str], None]:
    """Return how to print a text answer: on standard error where the output is ``-``, and is the answer itself.

    Raises:
        InputErrors: when a record is wanted there, too.
    """
    if output != "-":
        return answer
    if wants_json(args):
        hint = "name a file, or leave --json away"
        raise InputErrors.one("two answers for standard output: the record, and the file", hint=hint)
    return note
