# SPDX-License-Identifier: Apache-2.0
"""Which registry a command speaks to: the one that is named for this run, else those that are configured.

Edge: arguments, the environment, the user's settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from derive.cli.options import something
from derive.errors import HostRefuses, InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.net.places import Mirror

_FORM = "write it as http://127.0.0.1:5000, or with a path: http://127.0.0.1:5000/path"

HINT = "name one with --registry URL, export DERIVE_MIRROR_OCI=<url>, or set oci under [mirrors] in your config.toml"


def add_registry(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names a registry."""
    parser.add_argument(
        "--registry", type=something, metavar="URL", help="the registry (default: DERIVE_MIRROR_OCI, or [mirrors] oci)"
    )


def _named(text: str) -> tuple[Mirror, ...]:
    from derive.lock.settings import parse_urls
    from derive.net.places import display

    found = parse_urls(text, "--registry")
    if not found:
        raise InputErrors.one("not an http or https URL: nothing but blanks", where="--registry", hint=_FORM)
    for one in found:
        parts = urlsplit(one.url)
        if parts.query or parts.fragment or "?" in one.url or "#" in one.url:
            message = f"a registry's URL has no query and no fragment: {display(one.url)!r}"
            raise InputErrors.one(message, where="--registry", hint=_FORM)
        if not _has_port(parts):
            raise InputErrors.one(f"not a port: {display(one.url)!r}", where="--registry", hint=_FORM)
    return found


def _has_port(parts: SplitResult) -> bool:
    """Say whether what stands after the host is a port, or nothing."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def registries_of(args: argparse.Namespace) -> tuple[Mirror, ...]:
    """Return the registries, in order of preference.

    Raises:
        InputErrors: when the URL is none.
        HostRefuses: when none is named.
    """
    from derive.lock.mirrors import SystemMirrors

    found = _named(args.registry) if args.registry else SystemMirrors().oci()
    if not found:
        raise HostRefuses("no registry is configured", hint=HINT)
    return found
