# SPDX-License-Identifier: Apache-2.0
"""The options of every command, which stand before or after its name.

Edge: arguments.
"""

from __future__ import annotations

import argparse

from derive.canonical import Digest


def common_options() -> argparse.ArgumentParser:
    """Return a parser that others take their common options from."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("options of every command")
    group.add_argument("--project", metavar="DIR", help="the project (default: the folder here or above that is one)")
    group.add_argument("--store", metavar="DIR", help="the store (default: $DERIVE_STORE, else the user's data folder)")
    group.add_argument("--json", action="store_true", help="print the answer as a JSON record")
    group.add_argument("--jobs", type=_positive, metavar="N", help="how many things to do at once (default: the CPUs)")
    return common


def something(text: str) -> str:
    """Take an argument that may not be empty: an unset variable of a script is no choice."""
    if not text:
        raise argparse.ArgumentTypeError("empty")
    return text


def line(text: str) -> str:
    """Take text that is told to people: in one line, of what can be printed, and not empty."""
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"not text in one line that can be printed: {text!r}")
    return text


def executor_option(parser: argparse.ArgumentParser) -> None:
    """Declare what runs scripts and compilers, where this machine's own sandbox does not."""
    parser.add_argument(
        "--executor",
        type=_executor,
        default="",
        metavar="buildkit[=BUILDER]",
        help="run scripts and compilers on a builder of buildx, or on several with commas between them",
    )


def no_cache_option(parser: argparse.ArgumentParser) -> None:
    """Declare that nothing is taken from other machines."""
    parser.add_argument("--no-cache", action="store_true", help="take nothing from caches; build what came from them")


class Once(argparse.Action):
    """Takes an option's value, and refuses the option a second time, where the first value would silently be lost."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Keep the value; raises ArgumentError where there is one already."""
        del parser, option_string
        if getattr(namespace, self.dest, None) is not None:
            raise argparse.ArgumentError(self, "given twice")
        setattr(namespace, self.dest, values)


def image_digest(text: str) -> Digest:
    """Take the whole digest of an image."""
    try:
        return Digest.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not the digest of an image, sha256:<64 hex>: {text!r}") from None


def on_option(parser: argparse.ArgumentParser) -> None:
    """Declare which executors of the user's settings steps are placed on."""
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        type=something,
        metavar="NAME",
        help="an executor of your config.toml, or here; may be given several times (default: all of them)",
    )


def _executor(text: str) -> str:
    kind, equals, names = text.partition("=")
    if text and (kind != "buildkit" or (equals and not all(names.split(",")))):  # argparse passes the default, too
        raise argparse.ArgumentTypeError(f"not buildkit, and not buildkit=BUILDER: {text!r}")
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a whole number above 0: {text!r}")
    return int(text)
