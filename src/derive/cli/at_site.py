# SPDX-License-Identifier: Apache-2.0
"""What commands about the machines of a site share: which site is meant, and which of its services.

Edge: arguments, the environment, the site's file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.options import something
from derive.errors import DeriveError, InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.deploy.again import Again
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

    Records that cannot be read are told, and stand in the way of nothing.

    Raises:
        NodeUnreachable, SeveralNodes: when no node can be asked, and nothing was deployed from here.
    """
    found = set(await nodes.services())
    lost = nodes.troubles
    if lost:
        found |= _recorded(site)
    if len(lost) == len(site.nodes) and not found:
        from derive.deploy.node_errors import together

        raise together(list(lost.values()))
    return tuple(sorted(found))


def _recorded(site: Site) -> set[str]:
    try:
        return {one.service for one in kept_of(site).deploys()}
    except DeriveError as error:
        from derive.cli.console import note

        for one in error.problems():
            said = f"{one.where}: {one.message}" if one.where else one.message
            note(f"the records of deploys here cannot be read: {said}" + (f"; {one.hint}" if one.hint else ""))
        return set()


def again_of(args: argparse.Namespace) -> Again:
    """Return what commands that are proposed repeat of this one."""
    from derive.deploy.again import Again

    return Again(site=args.site)
