# SPDX-License-Identifier: Apache-2.0
"""What the answers are made of: when something was run, how it became what it is, and why.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.why.causes import Cause
from derive.why.graph import Node
from derive.why.moved import Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """When a step was run, and how: ``built``, ``fetched``, ``reused``; ``when_s`` seconds since 1970.

    ``target`` is what was asked for, where that is known and something else.
    """

    outcome: str
    when_s: int
    duration_ns: int
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """How one derivation became another.

    ``label_only``: images of which only the id that they carry differs. ``same_output``: both gave the same.
    ``engines``: digests of the engines that built them, abbreviated, where they differ. ``moved``: of two images, what
    each cause moved; None of anything else.
    """

    before: Node
    after: Node
    causes: tuple[Cause, ...]
    label_only: bool = False
    same_output: bool = False
    engines: tuple[str, str] | None = None
    moved: Moved | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something was built. Without ``last`` it never was; without ``became`` nothing came before it.

    ``now`` says what would be done with it now. ``lost`` is set where it had been built before and its output was
    gone: then ``first`` is when. ``before`` is when its predecessor was run.
    """

    node: Node
    now: str
    last: Time | None
    first: Time | None = None
    lost: bool = False
    became: Became | None = None
    before: Time | None = None
