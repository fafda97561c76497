# SPDX-License-Identifier: Apache-2.0
"""The options that a person gave, to be said again in every command that is proposed: without them it means another.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.deploy.consents import Consent

if TYPE_CHECKING:
    from derive.deploy.model import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What was given on the command line, as typed; None and nothing for what was not.

    Of the consents only those of the policy are repeated everywhere: what may be replaced is asked for anew each time.
    """

    site: str | None = None
    published: str | None = None
    adopt: str | None = None
    consents: frozenset[Consent] = field(default=frozenset())

    def command(self, words: str) -> str:
        """Return a command about the site's machines, such as ``derive status``, for the site that was named."""
        return " ".join((words, *_option("--site", self.site)))

    def deploy(
        self, served: Served | None, more: Collection[str] = (), *, apply: bool = True, adopts: bool = False
    ) -> str:
        """Return the command that deploys a release, None for one that is not known; ``more`` are further options.

        ``adopts``: it stops the container, too, that was to be adopted.
        """
        name = "RELEASE --shape SHAPE" if served is None else f"{_word(served.release)} --shape {_word(served.shape)}"
        policy = {one.value for one in self.consents & {Consent.EXPERIMENT, Consent.UNQUALIFIED}}
        words = (
            "derive deploy",
            name,
            *_option("--site", self.site),
            *_option("--published", self.published),
            *(_option("--adopt", self.adopt) if adopts else ()),
            *(("--apply",) if apply else ()),
            *sorted({*more, *policy}),
        )
        return " ".join(words)


PLAIN = Again()
"""Nothing is repeated."""


def _option(name: str, value: str | None) -> tuple[str, ...]:
    return () if value is None else (name, _word(value))


def _word(text: str) -> str:
    return shlex.quote(text)
