# SPDX-License-Identifier: Apache-2.0
"""Which registry a command speaks to: the one that is named for this run, else those that are configured.

Edge: arguments, the environment, the user's settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.options import something
from derive.errors import HostRefuses

if TYPE_CHECKING:
    import argparse

    from derive.net.places import Mirror

HINT = "name one with --registry URL, export DERIVE_MIRROR_OCI=<url>, or set oci under [mirrors] in your config.toml"


def add_registry(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names a registry."""
    parser.add_argument(
        "--registry", type=something, metavar="URL", help="the registry (default: DERIVE_MIRROR_OCI, or [mirrors] oci)"
    )


def registries_of(args: argparse.Namespace) -> tuple[Mirror, ...]:
    """Return the registries, in order of preference.

    Raises:
        InputErrors: when the URL is none.
        HostRefuses: when none is named.
    """
    from derive.lock.mirrors import SystemMirrors
    from derive.lock.settings import parse_urls

    found = parse_urls(args.registry, "--registry") if args.registry else SystemMirrors().oci()
    if not found:
        raise HostRefuses("no registry is configured", hint=HINT)
    return found
