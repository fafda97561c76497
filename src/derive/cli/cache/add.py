# SPDX-License-Identifier: Apache-2.0
"""Name a repository of a registry as a cache, in your own settings on this machine.

Edge: the user's settings, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, wants_json
from derive.cli.registries import add_registry
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive cache add http://127.0.0.1:5000/team/cache
  derive cache add office=team/cache --registry http://127.0.0.1:5000 --order 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("reference", metavar="[NAME=]REF", help="a registry's URL with a repository, or a repository")
    add_registry(parser)
    parser.add_argument("--order", type=int, default=0, metavar="N", help="lower is asked first (default: 0)")
    parser.add_argument(
        "--patience", type=int, default=10, metavar="S", help="seconds of silence that make it count as down"
    )


def run(args: argparse.Namespace) -> int:
    """Write it into the settings, and print its name."""
    from derive.cache.config import NAME, NO_ORDER, NO_PATIENCE, CacheConfig, is_order, is_patience, parse_place
    from derive.cache.settings import add_cache
    from derive.cli.registries import registries_of
    from derive.oci.reference import names_host

    name, equals, reference = args.reference.partition("=")
    if not equals or "/" in name:
        name, reference = "", args.reference
    registry = None
    if args.registry or not ("://" in reference or names_host(reference)):
        registry = registries_of(args)[0].url
    registry, repository = parse_place(reference, registry)
    name = name or repository.replace("/", "-").replace(".", "-")
    if not NAME.fullmatch(name):
        hint = "say another: NAME=REF, of letters, digits, '_' and '-'"
        raise InputErrors.one(f"no cache can have the name {name!r}", hint=hint)
    if not is_order(args.order):
        raise InputErrors.one(NO_ORDER, where="--order")
    if not is_patience(args.patience):
        raise InputErrors.one(NO_PATIENCE, where="--patience")
    cache = CacheConfig(name=name, registry=registry, repository=repository, order=args.order, patience_s=args.patience)
    file = add_cache(os.environ, cache)
    if wants_json(args):
        answer_record("cache-add", name, {"place": cache.place, "file": path_text(file)})
    else:
        answer(name)
    note(f"{cache.place} is the cache {name}, in {file}")
    note("what is taken from it must be vouched for by keys of the project: [tool.derive.trust]")
    return 0
