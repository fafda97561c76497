# SPDX-License-Identifier: Apache-2.0
"""From a recipe to one of its shapes with nothing left to look up.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.recipes import check
from derive.recipes.build import build
from derive.recipes.forms import is_table, removal
from derive.recipes.judge import dropped, judge
from derive.recipes.load import Pins, Recipe
from derive.recipes.merge import KeyPath, Tables, find, leaves, merge, place, prune, removals
from derive.recipes.pins import pinned
from derive.recipes.resolved import ModelPin, Origin, Resolved
from derive.recipes.rules import Rule, Unusable, rules_for
from derive.recipes.transport import Gift, find_names, gifts, typed_readers
from derive.recipes.values import plain_text
from derive.toml import key_path
from derive.words import near


def resolve(recipe: Recipe, shape: str | None = None, pins: Pins | None = None) -> Resolved:
    """Return a shape of a recipe that was read without problems, the default one unless named.

    Raises:
        InputErrors: when the recipe has no such shape.
    """
    name = shape or recipe.default_shape
    if name not in recipe.shapes:
        raise InputErrors.one(
            f"no shape {name!r} in this recipe",
            where=f"{recipe.file}: shapes",
            hint=near(name, recipe.shapes) or f"known: {', '.join(sorted(recipe.shapes))}",
        )
    work = _Work.of(replace(recipe, pins={**recipe.pins, **(pins or {})}), name)
    if work.problems:
        raise InputErrors(work.problems)
    return replace(build(recipe, name, work.tables, work.origins, work.pin()), removed=work.removed())


def shape_problems(recipe: Recipe, shape: str) -> list[Problem]:
    """Return what is wrong with one shape once what is shared is merged in."""
    return _Work.of(recipe, shape).problems


def models(recipe: Recipe) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the lock set and name of each checkpoint that a recipe's shapes serve, and where it is named."""
    for name, own in recipe.shapes.items():
        tables = prune(merge(recipe.shared, own))
        set_name, model = find(tables, ("model", "set")), find(tables, ("model", "huggingface"))
        if isinstance(set_name, str) and isinstance(model, str):
            path = written_at(own, name, ("model", "huggingface"))
            yield (set_name, model), check.where(recipe.file, path)


def written_at(own: Tables, shape: str, path: KeyPath) -> KeyPath:
    """Return where a merged value stands in the file: in the shape, or among what is shared."""
    return ("shapes", shape, *path) if find(own, path) is not None else path


@dataclass(slots=True)
class _Work:
    """A shape being resolved: merged tables that gifts and rules fill, and where each value comes from."""

    recipe: Recipe
    shape: str
    own: Tables
    tables: dict[str, Json]
    origins: dict[str, Origin]
    problems: list[Problem]

    @classmethod
    def of(cls, recipe: Recipe, shape: str) -> _Work:
        """Merge a shape, note where its values stand, and fill in what it is given."""
        own = recipe.shapes[shape]
        work = cls(recipe, shape, own, prune(merge(recipe.shared, own)), {}, [])
        work._note_origins()
        rules = rules_for(find(work.tables, ("service", "program")))
        for rule in rules:
            work._refuse_typed(rule)
        work.problems += dropped(work.tables, work.at)
        # What the fabric gives depends on the backend, and other rules count with what it gives.
        work._apply(*(rule for rule in rules if rule.id == "kernel-backend"))
        for gift in tuple(work._gifts()):
            work._take(gift)
        work._note_readers()
        work._apply(*(rule for rule in rules if rule.id != "kernel-backend"))
        work.problems += judge(work.tables, work.at, work.missing_at)
        return work

    def at(self, path: KeyPath) -> str:
        """Return the place of a key in the file."""
        return check.where(self.recipe.file, written_at(self.own, self.shape, path))

    def missing_at(self, path: KeyPath) -> str:
        """Return where a missing key would stand: in the shape where the shape alone has its table."""
        own_alone = find(self.own, path[:-1]) is not None and find(self.recipe.shared, path[:-1]) is None
        in_shape = path == ("cabling",) or (len(path) > 1 and own_alone)
        return check.where(self.recipe.file, ("shapes", self.shape, *path) if in_shape else path)

    def pin(self) -> ModelPin | None:
        """Return the pin of the shape's checkpoint, None for a shape that has none or whose lock has none."""
        name, set_name = (str(find(self.tables, ("model", key))) for key in ("huggingface", "set"))
        return self.recipe.pins.get((set_name, name))

    def _note_origins(self) -> None:
        own, shared = (dict((*leaves(one), *_argument_tables(one))) for one in (self.own, self.recipe.shared))
        for path, _ in (*leaves(self.tables), *_argument_tables(self.tables)):
            key = key_path(path)
            if path in own:
                written = f"shapes.{key_path((self.shape,))}.{key}"
                overrides = _overridden(shared[path], check.where(self.recipe.file, path)) if path in shared else None
                self.origins[key] = Origin(file=self.recipe.file, key=written, overrides=overrides)
            else:
                self.origins[key] = Origin(file=self.recipe.file, key=key)

    def _note_readers(self) -> None:
        for path, readers in typed_readers(self.recipe.fabric, self.tables):
            key = key_path(path)
            self.origins[key] = replace(self.origins[key], needs=readers)

    def removed(self) -> dict[str, Origin]:
        """Return what the shape removes, by path, with its reasons."""
        return {
            key_path(path): Origin(
                file=self.recipe.file,
                key=key_path(("shapes", self.shape, *path)),
                doc=removal(find(self.own, path)) or "",
                overrides=_overridden(find(self.recipe.shared, path), check.where(self.recipe.file, path)),
            )
            for path in removals(self.own)
        }

    def _refuse_typed(self, rule: Rule) -> None:
        for path in rule.gives:
            if find(self.tables, path) is not None:
                self._typed(path, rule.id, rule.text)

    def _typed(self, path: KeyPath, rule: str, text: str) -> None:
        message = f"typed, and given by rule {rule}"
        self.problems.append(
            Problem(where=self.at(path), message=message, detail=(f"the rule  {text}",), hint="remove it")
        )

    def _gifts(self) -> Iterator[Gift]:
        places = {key: self.at((key,)) for key in ("transport", "tuning")}
        self.problems += find_names(self.recipe.fabric, self.tables, places)
        pin = self.pin()
        if pin is not None:
            yield from pinned(
                pin, str(find(self.tables, ("model", "set"))), str(find(self.tables, ("model", "target")))
            )
        yield from gifts(self.recipe.fabric, self.tables)

    def _take(self, gift: Gift) -> None:
        key = key_path(gift.path)
        if find(self.tables, gift.path) is None:
            self._put(gift.path, gift.value, gift.origin)
        elif gift.tunable:
            given = f"{plain_text(gift.value)} ({gift.origin.file}: {gift.origin.key})"
            self.origins[key] = replace(self.origins[key], overrides=self.origins[key].overrides or given)
        elif gift.path[0] != "mounts":  # refused as typed already
            self._typed(gift.path, gift.origin.rule or "", f"{gift.origin.file}: {gift.origin.key}")

    def _apply(self, *rules: Rule) -> None:
        for rule in rules:
            if rule.derive is None:
                continue
            inputs = tuple(f"{key_path(path)} = {_shown(find(self.tables, path))}" for path in rule.reads)
            try:
                given = rule.derive(self.tables)
            except Unusable as error:
                self.problems.append(Problem(where=self.at(error.path), message=str(error), detail=error.detail))
                continue
            for path, value in given.items():
                if find(self.tables, path) != value:
                    key = key_path(path)
                    origin = Origin(file=self.recipe.file, key=key, rule=rule.id, inputs=inputs, doc=rule.text)
                    self._put(path, value, origin)

    def _put(self, path: KeyPath, value: Json, origin: Origin) -> None:
        for depth in range(1, len(path)):
            above = find(self.tables, path[:depth])
            if above is not None and not is_table(above):
                message = f"not a table, and rule {origin.rule} gives {key_path(path[depth:])} in it"
                self.problems.append(Problem(where=self.at(path[:depth]), message=message))
                return
        place(self.tables, path, value)
        self.origins[key_path(path)] = origin


def _argument_tables(tables: Tables) -> Iterator[tuple[KeyPath, Json]]:
    arguments = tables.get("arguments")
    if isinstance(arguments, dict):
        yield from ((("arguments", name), value) for name, value in arguments.items() if is_table(value))


def _overridden(value: Json, place: str) -> str | None:
    return None if value is None or is_table(value) else f"{plain_text(value)} ({place})"


def _shown(value: Json) -> str:
    return "nothing" if value is None else plain_text(value)
