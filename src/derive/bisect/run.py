# SPDX-License-Identifier: Apache-2.0
"""A bisection: derive, run the command, remember the verdict; a search says what comes next.

Edge: the store, a folder in it, the command's process.

Verdicts are remembered in the store by what they are of, so that a bisection that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from derive.bisect.command import call
from derive.bisect.compositions import Compositions
from derive.bisect.model import Answer, Ran, Unit
from derive.bisect.search import Search, Things, Verdict
from derive.bisect.sides import write_state
from derive.bisect.units import units
from derive.canonical import Digest, digest_document, escape, sha256
from derive.errors import BuildFailed, CheckFailed, InputErrors
from derive.infile import read_plain
from derive.store.local import LocalStore

_LARGEST = 16 << 20
"""A file among the command's words that is larger is data, and not what judges."""


class Stopped(Exception):
    """No more runs."""


@dataclass(slots=True)
class Bisection:
    """One search between two states. ``say`` is told each judgement, its number, and how many edits remain.

    ``timeout_s``: how long the command may take to judge; None where it may take for ever.
    """

    compositions: Compositions
    store: LocalStore
    command: tuple[str, ...]
    image: str
    most: int | None
    say: Callable[[int, Ran, int], None]
    timeout_s: int | None = None
    _verdicts: dict[Digest, Ran] = field(default_factory=dict, init=False)
    _units: tuple[Things, ...] = field(default=(), init=False)
    _search: Search | None = field(default=None, init=False)
    _runs: int = field(default=0, init=False)
    _remembered: int = field(default=0, init=False)

    def units(self) -> tuple[Unit, ...]:
        """Return what is tried together, cheapest first; nothing is derived or run.

        Raises:
            InputErrors: when A or B does not evaluate, or nothing differs.
        """
        found = self.compositions
        found.required(frozenset())
        found.required(found.everything)
        if not found.edits:
            message = f"{found.before.title} and {found.after.title} are the same: there is nothing to find"
            raise InputErrors.one(message, hint="name two that differ: derive releases --all lists them")
        self._units = self._remembered_order() or self._ordered()
        return tuple(self._described(unit) for unit in self._units)

    def _ordered(self) -> tuple[Things, ...]:
        """Group the edits, and put the cheapest first; remember that, for prices move while the search goes on."""
        found = self.compositions
        made = tuple(found.order(units(range(len(found.edits)), lambda chosen: found.target(chosen) is not None)))
        if not self.store.read_only:
            text = json.dumps([sorted(unit) for unit in made])
            self.store.database.set_memo(self._order_key(), text)
        return made

    def _remembered_order(self) -> tuple[Things, ...]:
        """Return the order that a search between the same states had, which judged in that order; else nothing."""
        known = self.store.database.memo(self._order_key())
        return () if known is None else tuple(frozenset(unit) for unit in json.loads(known))

    def _order_key(self) -> Digest:
        found = self.compositions
        ends = [found.required(chosen).id.hex for chosen in (frozenset[int](), found.everything)]
        edits = [str(edit) for edit in found.edits]
        return digest_document({"derive": "bisect-order/1", "states": ends, "edits": edits})

    def run(self) -> Answer:
        """Search, and return the answer; after as many runs as were asked for, what is known then.

        Raises:
            CheckFailed: when A and B do not differ in verdict.
            InputErrors: as :meth:`units`, and when the command cannot be run.
        """
        self.units()
        try:
            self._verify()
            self._search = Search(range(len(self._units)), self._test, self._cost)
            self._search.run()
        except Stopped:
            return self.answer(whole=False)
        return self.answer(whole=True)

    def answer(self, *, whole: bool) -> Answer:
        """Return what is known now."""
        found, search = self.compositions, self._search
        # Before A and B are known to differ, nothing is known to flip the verdict.
        chosen = frozenset[int]() if search is None else self._united(search.needed if whole else search.best)
        return Answer(
            before=found.before.title,
            after=found.after.title,
            image=self.image,
            command=self.command,
            edits=found.edits,
            found=tuple(found.edits[one] for one in sorted(chosen)),
            whole=whole,
            runs=self._runs,
            remembered=self._remembered,
        )

    def _described(self, unit: Things) -> Unit:
        price, steps = self.compositions.price(unit)
        edits = tuple(self.compositions.edits[one] for one in sorted(unit))
        return Unit(edits=edits, price_ns=price, steps=steps)

    def _united(self, chosen: Things) -> Things:
        return frozenset(edit for one in chosen for edit in self._units[one])

    def _verify(self) -> None:
        """Find out first that A and B are not alike."""
        found = self.compositions
        first, second = self._judge(frozenset()), self._judge(found.everything)
        for title, ran in ((found.before.title, first), (found.after.title, second)):
            if ran.verdict is Verdict.UNKNOWN:
                raise CheckFailed(f"{title} cannot be judged: {ran.why or 'the command says so (exit 125)'}")
        if first.verdict is not Verdict.OLD:
            detail = [f"A         exit {first.exit_code}, {found.before.title}"]
            detail.append(f"B         exit {second.exit_code}, {found.after.title}")
            hint = "0 means: like A; let the command end with 0 for A, or name B first"
            raise CheckFailed("the command does not end with 0 for A", detail=detail, hint=hint)
        if second.verdict is not Verdict.NEW:
            hint = "a verdict that flips is what is looked for"
            raise CheckFailed(f"{found.before.title} and {found.after.title} do not differ in verdict", hint=hint)

    def _test(self, chosen: Things) -> Verdict:
        return self._judge(self._united(chosen)).verdict

    def _cost(self, chosen: Things) -> int:
        """Return what a test would take: nothing where its verdict is known, or was before."""
        edits = self._united(chosen)
        key = self.compositions.key(edits)
        if key is None or key in self._verdicts or self._before(key) is not None:
            return 0
        price, steps = self.compositions.price(edits)
        return 1 if not steps else 1 << 62 if price is None else price + 1

    def _judge(self, edits: Things) -> Ran:
        """Return the verdict of a composition: known, remembered in the store, or by a run."""
        key = self.compositions.key(edits)
        if key is None:
            return Ran(edits=len(edits), exit_code=None, why="does not evaluate")
        if key in self._verdicts:
            return self._verdicts[key]
        known = self._before(key)
        if known is None and self.most is not None and self._runs >= self.most:
            raise Stopped
        if known is None:
            ran = self._run(edits)
            self._runs += 1
        else:
            ran = Ran(edits=len(edits), exit_code=int(known), remembered=True)
            self._remembered += 1
        self._verdicts[key] = ran
        if known is None and ran.exit_code is not None and not self.store.read_only:
            self.store.database.set_memo(self._memo(key), str(ran.exit_code))
        self.say(self._runs + self._remembered, ran, self._remaining(edits, ran))
        return ran

    def _before(self, key: Digest) -> str | None:
        """Return the exit code that the same command ended with for the same thing, remembered in the store."""
        return self.store.database.memo(self._memo(key))

    def _memo(self, key: Digest) -> Digest:
        return digest_document({**self._question(), "of": key.hex})

    def _remaining(self, edits: Things, ran: Ran) -> int:
        best = self.compositions.everything if self._search is None else self._united(self._search.best)
        return min(len(best), len(edits)) if ran.verdict is Verdict.NEW else len(best)

    def _question(self) -> dict[str, str | list[str]]:
        """Return what judges: the command's words, and the bytes of those that are files."""
        words = [escape(os.fsencode(word)) for word in self.command]
        files = [_file_digest(word) for word in self.command]
        return {"derive": "bisect-verdict/1", "command": words, "files": files}

    def _run(self, edits: Things) -> Ran:
        target = self.compositions.target(edits)
        assert target is not None
        began = time.monotonic_ns()
        try:
            image = self.compositions.derive(target)
        except BuildFailed as error:
            return Ran(
                edits=len(edits), exit_code=None, why=_first_line(error), duration_ns=time.monotonic_ns() - began
            )
        with self._laid_out(edits) as folder:
            told = {
                "DERIVE_BISECT_PROJECT": str(folder),
                "DERIVE_BISECT_IMAGE": str(image),
                "DERIVE_BISECT_STORE": str(self.store.root),
            }
            code = call(self.command, told, self.timeout_s)
        why = f"the command did not end within {self.timeout_s} s" if code is None else ""
        return Ran(edits=len(edits), exit_code=code, why=why, duration_ns=time.monotonic_ns() - began)

    @contextmanager
    def _laid_out(self, edits: Things) -> Iterator[Path]:
        """Lend a folder with a composition: among what the store sweeps when this process was killed."""
        folder = self.store.staging.new_path()
        try:
            folder.mkdir()
            write_state(self.compositions.files(edits), folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: BuildFailed) -> str:
    return error.problems()[0].message


def _file_digest(word: str) -> str:
    try:
        return sha256(read_plain(Path(word), _LARGEST)[0]).hex
    except (OSError, ValueError):
        return ""
