# SPDX-License-Identifier: Apache-2.0
"""What commands about the machines of a site share: which site is meant, and which of its services.

Edge: arguments, the environment, the site's file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.options import something
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.deploy.kept import Kept
    from derive.deploy.look import Lookout
    from derive.deploy.ssh_config import SshSettings
    from derive.fabric.rule import SiteInput
    from derive.fabric.site import Site

NO_SERVICE = "nothing was deployed to this site: derive deploy RELEASE --shape SHAPE"


def add_site(parser: argparse.ArgumentParser) -> None:
    """Declare which site is meant."""
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")


def site_of(args: argparse.Namespace) -> Site:
    """Return the site; raises InputErrors where there is none, or its file is wrong."""
    return site_input(args).site


def site_input(args: argparse.Namespace) -> SiteInput:
    """Return the site with its file's places; raises InputErrors where there is none, or its file is wrong."""
    from derive.fabric.places import find_site, read_site

    path = find_site(os.environ, args.site)
    if path is None:
        hint = "write one: derive site init; or name it: --site FILE"
        raise InputErrors.one("no site file: nothing says which machines are meant", hint=hint)
    return read_site(path)


def kept_of(site: Site) -> Kept:
    """Return what this machine keeps of a site."""
    from derive.deploy.kept import Kept

    return Kept.of(site.name, os.environ)


def ssh_of() -> SshSettings:
    """Return how nodes are reached."""
    from derive.deploy.ssh_config import ssh_settings

    return ssh_settings(os.environ)


async def services_at(nodes: Lookout, site: Site) -> tuple[str, ...]:
    """Return the services that nodes know; where some cannot be asked, also those that were deployed from here.

    Raises:
        NodeUnreachable, SeveralNodes: when no node can be asked, and nothing was deployed from here.
    """
    found = set(await nodes.services())
    lost = nodes.troubles
    if lost:
        found |= {one.service for one in kept_of(site).deploys()}
    if len(lost) == len(site.nodes) and not found:
        from derive.deploy.node_errors import together

        raise together(list(lost.values()))
    return tuple(sorted(found))


def chosen(named: str | None, there: Sequence[str]) -> tuple[str, ...]:
    """Return the services that are meant: the one named, whether it is there or not, or all.

    Raises:
        InputErrors: when one is named that nobody knows, and others are there.
    """
    if named is None or named in there:
        return tuple(there) if named is None else (named,)
    from derive.words import near

    hint = (near(named, there) or f"there is {', '.join(there)}") if there else "derive deploy RELEASE --shape SHAPE"
    raise InputErrors.one(f"no node knows a service {named!r}", hint=hint)


def only_one(named: str | None, there: Sequence[str]) -> str:
    """Return the one service that is meant; raises InputErrors where that is none or several."""
    found = chosen(named, there)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputErrors.one("nothing was deployed to this site", hint="derive deploy RELEASE --shape SHAPE")
    raise InputErrors.one("several services are there", hint=f"name one: {', '.join(found)}")
