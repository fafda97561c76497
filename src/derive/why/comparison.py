# SPDX-License-Identifier: Apache-2.0
"""A comparison as lines for people, and as the body of a record.

Edge: the store, for the contents of files that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from derive.canonical import Json, escape
from derive.differ.stored import differ_path
from derive.store.local import LocalStore
from derive.trees.diff import Added, Change, Changed, Removed
from derive.trees.listing import Directory, Entry, File, Symlink
from derive.why.compare import Comparison, sizes_of
from derive.why.differences import ArtifactMoved
from derive.why.documents import artifact_document, difference_document
from derive.why.pull import Blob, LayerRow, Pull
from derive.why.render import Line, Span, Style, line, printable, text_of
from derive.why.texts import FILES, text_diff
from derive.why.words import details, headline, indented
from derive.words import count_text, size_text

_SHOWN = 40
_FEW_LAYERS = 8


def comparison_lines(found: Comparison, store: LocalStore, *, everything: bool, texts: bool) -> Iterator[Line]:
    """Show what moved, section by section. ``everything`` shows every row; ``texts`` what moved inside files."""
    yield (Span(f"- {printable(found.before)}", "removed"),)
    yield (Span(f"+ {printable(found.after)}", "added"),)
    if found.same:
        yield line("the same")
    limit = None if everything else _SHOWN
    yield from _section("fields", _fields(found), None)
    yield from _section("inputs", [_moved(one.role, one.before, one.after) for one in found.inputs], limit)
    yield from _section("packages", list(_packages(found)), limit)
    yield from _section("layers", list(_layers(found, everything=everything)), None)
    yield from _section("config", [line(headline(one)) for one in found.config], None)
    yield from _section("paths", list(_paths(found)), limit)
    if texts and found.trees is not None:
        yield from _contents(found, store)
    yield from _sums(found)


def _section(title: str, rows: Sequence[Line], limit: int | None) -> Iterator[Line]:
    if not rows:
        return
    yield ()
    yield line(title, "strong")
    yield from (indented(row) for row in rows[:limit])
    if limit is not None and len(rows) > limit:
        yield line(f"  ... {len(rows) - limit} more: --all lists them", "dim")


def _fields(found: Comparison) -> list[Line]:
    rows: list[Line] = []
    for one in found.fields:
        rows.append(line(headline(one)))
        rows += [indented(detail) for detail in details(one)]
    return rows


def _packages(found: Comparison) -> Iterator[Line]:
    elsewhere = [one for one in found.packages if _is_for_another_platform(one.moved)]
    for one in found.packages:
        if one not in elsewhere:
            style: Style = "added" if one.moved.before is None else "removed" if one.moved.after is None else "plain"
            note = "  to build with" if one.to_build else ""
            yield (Span(printable(headline(one.moved)), style), Span(note, "dim"))
    if elsewhere:
        yield line(f"{count_text(len(elsewhere), 'package')} of the same version, for another platform")


def _is_for_another_platform(moved: ArtifactMoved) -> bool:
    """Say whether two artifacts are one version of one thing for two platforms."""
    before, after = moved.before, moved.after
    if before is None or after is None or before.facts is None or after.facts is None:
        return False
    wheels = str(before.facts.get("file", "")).endswith(".whl") and "file" in moved.fields
    return before.version == after.version and ("architecture" in moved.fields or wheels)


def _moved(what: str, before: str | None, after: str | None) -> Line:
    if before is None or after is None:
        style: Style = "added" if before is None else "removed"
        return (Span(printable(f"{what}: {after if before is None else before}, {style}"), style),)
    return line(f"{what}: {before} -> {after}")


def _layers(found: Comparison, *, everything: bool) -> Iterator[Line]:
    """Show layers, where any moved; of many that are the same only how many there are."""
    same = [row for row in found.layers if row.before == row.after]
    if len(same) == len(found.layers):
        return
    few = everything or len(found.layers) <= _FEW_LAYERS
    yield from (_layer(row) for row in found.layers if few or row.before != row.after)
    if not few:
        yield line(f"{count_text(len(same), 'layer')} the same: --all lists them", "dim")


def _layer(row: LayerRow) -> Line:
    name = f"{row.number}  {row.name}" if row.name else str(row.number)
    if row.before == row.after and row.after is not None:
        return line(f"{name}  {_blob(row.after)}  the same", "dim")
    before, after = (None if one is None else _blob(one) for one in (row.before, row.after))
    return _moved(name, before, after)


def _blob(layer: Blob) -> str:
    return f"sha256:{layer[0].rpartition(':')[2][:12]} {size_text(layer[1])}"


def _paths(found: Comparison) -> Iterator[Line]:
    assert found.trees is not None or not found.paths
    for one in found.paths:
        name = text_of(b"/" + one.path)
        match one:
            case Added(entry=entry):
                yield (Span(f"+ {name}  {_entry(entry)}", "added"),)
            case Removed(entry=entry):
                yield (Span(f"- {name}  {_entry(entry)}", "removed"),)
            case Changed(kind=kind, before=before, after=after):
                yield line(f"~ {name}  {kind}: {_fact(kind, before)} -> {_fact(kind, after)}")
            case _:
                assert_never(one)


def _entry(entry: Entry) -> str:
    match entry:
        case Directory():
            return "folder"
        case Symlink(target):
            return f"link to {text_of(target)}"
        case File(executable, size):
            return f"{'program' if executable else 'file'} of {size_text(size)}"
        case _:
            assert_never(entry)


def _fact(kind: str, entry: Entry) -> str:
    if kind == "executable" and isinstance(entry, File):
        return "yes" if entry.executable else "no"
    if kind == "contents" and isinstance(entry, File):
        return f"{entry.sha256.short} {size_text(entry.size)}"
    return _entry(entry)


def _contents(found: Comparison, store: LocalStore) -> Iterator[Line]:
    assert found.trees is not None
    paths = list(dict.fromkeys(one.path for one in found.paths if _is_file(one)))
    for path in paths[:FILES]:
        yield ()
        yield line("/" + text_of(path), "strong")
        shown = text_diff(store, found.trees, path)
        if isinstance(shown, str):
            yield line(f"  not shown: {shown}", "dim")
            yield from (indented(row) for row in differ_path(store, found.trees, path))
        else:
            yield from (indented(row) for row in shown)
    if len(paths) > FILES:
        yield ()
        yield line(f"... and {len(paths) - FILES} more files", "dim")


def _is_file(change: Change) -> bool:
    match change:
        case Added(entry=entry) | Removed(entry=entry):
            return isinstance(entry, File)
        case Changed(kind=kind):
            return kind in ("contents", "type")
        case _:
            assert_never(change)


def _sums(found: Comparison) -> Iterator[Line]:
    rows: list[str] = list(found.notes)
    if found.trees is not None and found.paths:
        kinds = [("added", Added), ("removed", Removed), ("changed", Changed)]
        counts = {word: len({one.path for one in found.paths if isinstance(one, kind)}) for word, kind in kinds}
        rows.append("paths: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count))
    elif found.trees is not None and not found.same:
        rows.append("both have the same tree")
    if found.sizes is not None and found.sizes[0] != found.sizes[1]:
        rows.append(f"size: {_sizes(found.sizes)}")
    if found.packages and found.fetched is not None:
        rows.append(f"{count_text(len(found.packages), 'package')} moved; fetched in all: {_sizes(found.fetched)}")
    if found.pull is not None and not found.same:
        rows.append(_pull(found.pull))
    if rows:
        yield ()
        yield from map(line, rows)


def _pull(pull: Pull) -> str:
    """Say what someone must pull of the second image who has the first."""
    layers = f"{len(pull.layers)} of {count_text(len(pull.layers) + pull.shared, 'layer')}"
    shared = f"{pull.shared}, {size_text(pull.shared_bytes)}"
    return f"to pull: {layers}, {size_text(pull.size)} ({pull.size} bytes); shared: {shared}"


def _sizes(sizes: tuple[int, int]) -> str:
    change = sizes[1] - sizes[0]
    sign = "+" if change > 0 else "-" if change < 0 else ""
    same = f", {sign}{size_text(abs(change))}" if change else ", as before"
    return f"{size_text(sizes[0])} -> {size_text(sizes[1])}{same}"


def comparison_body(found: Comparison) -> dict[str, Json]:
    """Return a comparison as the body of a record."""
    return {
        "before": found.before,
        "after": found.after,
        "same": found.same,
        "fields": [difference_document(one) for one in found.fields],
        "inputs": [{"role": one.role, "before": one.before, "after": one.after} for one in found.inputs],
        "packages": [
            {
                "before": artifact_document(one.moved.before),
                "after": artifact_document(one.moved.after),
                "to_build": one.to_build,
            }
            for one in found.packages
        ],
        "fetched_bytes": _pair(found.fetched),
        "layers": [_layer_document(one) for one in found.layers],
        "pull": None if found.pull is None else _pull_document(found.pull),
        "config": [difference_document(one) for one in found.config],
        "paths": [_path_document(one, found) for one in found.paths],
        "size_bytes": _pair(found.sizes),
        "notes": list(found.notes),
    }


def _pair(sizes: tuple[int, int] | None) -> Json:
    return None if sizes is None else {"before": sizes[0], "after": sizes[1]}


def _layer_document(row: LayerRow) -> dict[str, Json]:
    sides: dict[str, Json] = {
        key: None if one is None else {"digest": one[0], "size_bytes": one[1]}
        for key, one in (("before", row.before), ("after", row.after))
    }
    return {"number": row.number, "name": row.name or None, **sides}


def _pull_document(pull: Pull) -> dict[str, Json]:
    return {
        "bytes": pull.size,
        "layers": [{"digest": digest, "size_bytes": size} for digest, size in pull.layers],
        "documents_bytes": pull.documents,
        "shared_layers": pull.shared,
        "shared_bytes": pull.shared_bytes,
    }


def _path_document(change: Change, found: Comparison) -> dict[str, Json]:
    assert found.trees is not None
    what = change.kind if isinstance(change, Changed) else type(change).__name__.lower()
    old, new = sizes_of(change, found.trees)
    return {"path": escape(change.path), "what": what, "before_bytes": old, "after_bytes": new}
