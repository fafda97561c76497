# SPDX-License-Identifier: Apache-2.0
"""Watch a service: when a rank dies, stop all, say which died first and of what, and restart within a budget.

Edge: the project, the site's file, the store, SSH, what this machine keeps of the site, standard streams.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from derive.cli.at_site import add_site, again_of, kept_of, services_at, site_input, ssh_of
from derive.cli.console import note, project_root, store_folder
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

    from derive.deploy.model import Served, Target

EXAMPLES = """\
  derive supervise                             until Ctrl-C, with 3 restarts an hour
  derive supervise probe --restarts 1 --within 600
  derive supervise --restarts 0                stop all ranks with the first that dies, and end
"""

_RESTARTS, _WITHIN_S, _INTERVAL_S = 3, 3600, 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("service", nargs="?", type=something, metavar="SERVICE", help="default: the only one")
    add_site(parser)
    parser.add_argument(
        "--restarts", type=_count, metavar="N", default=_RESTARTS, help=f"how many there may be (default: {_RESTARTS})"
    )
    parser.add_argument(
        "--within",
        type=_whole_seconds,
        metavar="SECONDS",
        default=_WITHIN_S,
        help=f"in how long a time they count (default: {_WITHIN_S})",
    )
    parser.add_argument(
        "--interval", type=_seconds, metavar="SECONDS", default=_INTERVAL_S, help="from look to look (default: 2)"
    )


def run(args: argparse.Namespace) -> int:
    """Watch; ends by itself, with exit code 1, when the budget is spent or a restart cannot be."""
    asyncio.run(_run(args))
    return 0


async def _run(args: argparse.Namespace) -> None:
    from derive.deploy.incident import Budget
    from derive.deploy.look import lookout
    from derive.deploy.services import only_one
    from derive.deploy.watching import Watch, watch
    from derive.deploy.work import Means
    from derive.records.who import who

    root, site, settings = project_root(args), site_input(args), ssh_of()
    async with lookout(site.site, settings) as nodes:
        service = only_one(args.service, await services_at(nodes, site.site))
    means = Means(
        store=store_folder(args),
        kept=kept_of(site.site),
        clock=time.monotonic_ns,
        now_s=lambda: int(time.time()),
        by=who(root),
    )

    def aim(served: Served) -> Target:
        from derive.deploy.target import aim
        from derive.render.chosen import Chosen

        chosen = Chosen(recipe=None, shape=served.shape, site=args.site)
        return aim(root, f"release:{served.release_digest.hex}", chosen, os.environ, means.store).target

    await watch(
        Watch(
            site=site,
            settings=settings,
            service=service,
            budget=Budget(restarts=args.restarts, within_s=args.within),
            interval_s=args.interval,
            means=means,
            say=_say,
            aim=aim,
            again=again_of(args),
        )
    )


def _say(text: str) -> None:
    note(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}  {text}")


def _count(text: str) -> int:
    import argparse

    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a whole number: {text!r}")
    return int(text)


def _whole_seconds(text: str) -> int:
    import argparse

    if not text.isdecimal() or not 1 <= int(text[:9]) <= 10**7:
        raise argparse.ArgumentTypeError(f"not a whole number of seconds, 1 or more: {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    import argparse

    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 1e7:
        raise argparse.ArgumentTypeError(f"not a number of seconds, 0.1 or more: {text!r}")
    return seconds
