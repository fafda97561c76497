# SPDX-License-Identifier: Apache-2.0
"""List the units of kernels: for which rows, whether each is built, what its machine code needs and holds.

Edge: the store, standard streams.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, table, wants_json
from derive.store.local import LocalStore
from derive.why.render import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.kernels.answers import Answer

EXAMPLES = """\
  derive kernels list
  derive kernels list act_quant --gpu sm_90a
  derive kernels list act_quant/quantise/bf16 --json
"""

_HEAD = ("rows", "built", "regs", "shared", "spills", "matrix instructions")
_RIGHT = frozenset({1, 3, 4, 5})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="KERNEL", help="kernels, units, or the beginnings of units' names (default: all)"
    )
    parser.add_argument("--gpu", metavar="ARCHITECTURE", help="units for this GPU alone, such as sm_90a")


def run(args: argparse.Namespace) -> int:
    """Ask the store about every unit that is meant, and print it."""
    from derive.derivations.scope import load_scope
    from derive.kernels.answers import list_units
    from derive.kernels.selecting import kernels_of
    from derive.words import count_text

    scope = load_scope(project_of(args))
    targets = kernels_of(scope, ()).select(args.names, args.gpu)
    with LocalStore(store_folder(args), reading=True) as store:
        found = list_units(scope, targets, store)
    built = sum(one.state == "built" for one in found)
    if wants_json(args):
        answer_record("kernels", " ".join(args.names), {"units": [one.document() for one in found]})
    elif found and sys.stdout is not None and sys.stdout.isatty():
        answer(_fitted(_grouped(found), shutil.get_terminal_size().columns))
    elif found:
        answer(_table(found))
    note(f"{count_text(len(found), 'unit')}, {built} built" if found else "the project has no kernels")
    return 0


def _table(found: Sequence[Answer]) -> str:
    """Return a row for each unit, under its full name: for programs that read lines."""
    rows = [(one.unit.name, *_facts(one)) for one in found]
    return table([("unit", *_HEAD), *rows], right=_RIGHT)


def _grouped(found: Sequence[Answer]) -> str:
    """Return the rows of each shape below its name, which is the beginning of its units' names."""
    rows = table([("", *_HEAD), *((f"  {_tile(one)}", *_facts(one)) for one in found)], right=_RIGHT).split("\n")
    lines = [rows[0]]
    before = ""
    for one, row in zip(found, rows[1:], strict=True):
        shape = one.unit.name.removesuffix(f"/{_tile(one)}")
        if shape != before:
            degrees = "".join(f", TP{degree}" for degree in one.tensor_parallel)
            lines.append(f"{shape}  {printable(one.doc)}{degrees}")
        before = shape
        lines.append(row)
    return "\n".join(lines)


def _tile(one: Answer) -> str:
    return f"{one.unit.tile}/{one.unit.gpu}"


def _facts(one: Answer) -> tuple[str, ...]:
    from derive.kernels.selecting import rows_text

    rows, state = rows_text(one.unit.rows), {"built": "yes", "gone": "gone", "not built": "no"}[one.state]
    if one.facts is None:
        return (rows, state, "", "", "", "")
    resources, shared = one.facts.resources, one.facts.shared_memory_bytes
    matrix = ", ".join(f"{name} x{count}" for name, count in sorted(resources.matrix_instructions.items()))
    return (rows, state, str(resources.registers), str(shared), str(resources.spill_bytes), matrix or "none")


def _fitted(text: str, width: int) -> str:
    """Cut rows at a terminal's width: the last column may be long, and --json has it whole."""
    return "\n".join(
        row if len(row) <= width else row[: max(width - 3, 0)].rstrip() + "..." for row in text.split("\n")
    )
