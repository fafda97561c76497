# SPDX-License-Identifier: Apache-2.0
"""Bytes are followed down to what moved them: images made up of steps whose trees a test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import Json, encode, sha256
from derive.derivations.model import Derivation, closure
from derive.trees.listing import File, Listing
from derive.why.blame import Blame
from derive.why.causes import cause_key
from derive.why.graph import Graph, graph_of
from derive.why.moved import Moved, changed_leaves, weigh
from derive.why.moved_words import cause_rows, causeless_lines, moved_document, sum_lines, weight_text
from derive.why.pull import LayerRow
from derive.why.render import render
from derive.why.weighing import one_line_key
from support.steps import fetch_deb, root, step

Texts = Mapping[str, str]


def tree(files: Texts) -> Listing:
    """Return a tree of files with some contents."""
    entries = {path.encode(): text.encode() for path, text in files.items()}
    return Listing.of({path: File(False, len(data), sha256(data)) for path, data in entries.items()})


@dataclass(frozen=True, slots=True)
class Made:
    """An image, what each of its steps gave, the trees by output, and its layers' digests in order."""

    image: Derivation
    graph: Graph
    trees: Mapping[str, Listing]
    layers: tuple[str, ...]


def made(image: Derivation, contents: Mapping[str, Texts]) -> Made:
    """Realise an image: steps give the files that are said by their names, unions and layers what follows."""
    outputs: dict[str, str] = {}
    trees: dict[str, Listing] = {}
    order = closure(image)
    for one in order:
        below = {role: outputs[given.derivation.id.hex] for role, given in one.inputs.items() if not is_fetch(given)}
        if one.builder in ("layer", "image"):
            own: Json = {"of": [f"{role} {text}" for role, text in sorted(below.items())], "arguments": one.arguments}
            outputs[one.id.hex] = f"flat:{sha256(encode(own))}"
            continue
        found = dict(contents.get(one.name, {}))
        listing = tree(found)
        if one.builder == "compose":
            listing = Listing.of({path: e for text in below.values() for path, e in trees[text].files()})
        outputs[one.id.hex] = f"nar:{sha256(repr(sorted(listing.items())).encode())}"
        trees[outputs[one.id.hex]] = listing
    graph = graph_of(order)
    known = {one.id: {"out": outputs[one.id.hex], "descriptor": outputs[one.id.hex]} for one in order}
    layers = tuple(
        outputs[given.derivation.id.hex].removeprefix("flat:")
        for role, given in sorted(image.inputs.items())
        if role.startswith("blob.")
    )
    return Made(image, Graph(nodes=graph.nodes, fetches=graph.fetches, outputs=known), trees, layers)


def is_fetch(given: object) -> bool:
    """Say whether an input is fetched."""
    derivation = getattr(given, "derivation")  # noqa: B009 - of either kind of input
    return bool(derivation.fixed is not None)


def image(*trees: Derivation, modes: str = "0755", user: str = "") -> Derivation:
    """Return an image of one layer for each tree."""
    layers = {
        f"blob.{n}": step(f"image layer {one.name}", "layer", {"tree.0": one}, modes=modes)
        for n, one in enumerate(trees)
    }
    union = step(
        "image root", "compose", {one.name: one for one in trees}, parts=[{"name": one.name, "at": ""} for one in trees]
    )
    return step("image", "image", {**layers, "root": union}, config={"user": user}, layers=len(trees))


def between(before: Made, after: Made, *, one_line: bool = True) -> Moved:
    """Return what moved between two images, whose layers have 100 compressed bytes each."""
    trees = {**before.trees, **after.trees}
    blame = Blame(before.graph, after.graph, trees.get, one_line_key if one_line else cause_key)
    rows = [
        LayerRow(n, (old, 100), (new, 100), f"layer{n}")
        for n, (old, new) in enumerate(zip(before.layers, after.layers, strict=True))
    ]
    return weigh(blame, before.image.id, after.image.id, rows)


def told(moved: Moved) -> list[str]:
    """Return the one line of each cause, without its columns."""
    return [" ".join("".join(span.text for span in one).split()) for one in cause_rows(moved)]


def app(flags: str = "-O2", source: str = "src") -> Derivation:
    """Return a program that is built."""
    return step("app", "script", {"in.source": step(source, "unpack", kind=source)}, flags=flags)


def test_a_package_moves_the_bytes_of_its_files_and_the_layer_that_holds_them() -> None:
    def one(version: str) -> Made:
        base = root("base", fetch_deb("bash", version), fetch_deb("dash"))
        bash = {"data/usr/bin/bash": f"bash {version}"}
        files = {"usr/bin/bash": f"bash {version}", "usr/bin/dash": "dash"}
        return made(
            image(base, app()),
            {
                "base": files,
                f"bash_{version}_amd64.deb unpacked": bash,
                "dash_1_amd64.deb unpacked": {"data/usr/bin/dash": "dash"},
                "app": {"usr/bin/app": "app"},
            },
        )

    moved = between(one("1"), one("2"))
    (cause,) = moved.causes
    assert cause.paths == (b"usr/bin/bash",)
    assert (cause.weight.size, cause.weight.paths, cause.weight.layers, cause.weight.packed) == (6, 1, ("layer0",), 100)
    assert (moved.size, moved.paths, moved.packed, moved.causeless, moved.idle) == (6, 1, 100, (), ())
    assert told(moved) == ["6 B 1 path 100 B compressed bash 1 -> 2 (amd64) in bash_2_amd64.deb unpacked"]


def test_a_package_that_came_moves_its_files_and_one_that_went_those_it_had() -> None:
    few, many = root("base", fetch_deb("a")), root("base", fetch_deb("a"), fetch_deb("b"))
    files = {"a_1_amd64.deb unpacked": {"data/a": "aa"}, "b_1_amd64.deb unpacked": {"data/b": "bbb"}}
    sides = (
        made(image(few), {**files, "base": {"a": "aa"}}),
        made(image(many), {**files, "base": {"a": "aa", "b": "bbb"}}),
    )
    assert told(between(*sides)) == ["3 B 1 path 100 B compressed b 1 (amd64) added in base"]
    assert told(between(*sides[::-1])) == ["3 B 1 path 100 B compressed b 1 (amd64) removed in base"]


def test_what_a_script_makes_follows_from_everything_that_moved_below_it_and_is_said_to_be_shared() -> None:
    old = made(image(app()), {"app": {"bin/app": "one"}, "src": {"c": "1"}})
    new = made(image(app("-O3", "other")), {"app": {"bin/app": "other"}, "other": {"c": "2"}})
    moved = between(old, new)
    assert [(one.weight.size, one.weight.shared) for one in moved.causes] == [(5, 5), (5, 5)]
    assert moved.size == 5
    assert weight_text(moved.causes[0].weight) == "5 B in 1 path (by others, too); layer layer0, 100 B compressed"


def test_a_file_that_came_out_the_same_moved_nothing_and_its_cause_stands_apart() -> None:
    old = made(image(app(), step("other")), {"app": {"bin/app": "same"}, "other": {"x": "1"}})
    new = made(image(app("-O3"), step("other", "script", flags="1")), {"app": {"bin/app": "same"}, "other": {"x": "2"}})
    moved = between(old, new)
    assert [one.cause.step for one in moved.causes] == ["other"]
    assert [cause.step for cause in moved.idle] == ["app"]


def test_what_an_image_says_of_modes_moves_layers_and_no_file() -> None:
    files = {"app": {"bin/app": "x"}}
    moved = between(made(image(app()), files), made(image(app(), modes="0700"), files))
    assert told(moved) == ['- 100 B compressed modes: "0755" -> "0700" in image layer app']
    assert moved.size == 0


def test_a_setting_of_the_config_moves_the_config_alone() -> None:
    files = {"app": {"bin/app": "x"}}
    moved = between(made(image(app()), files), made(image(app(), user="1"), files))
    assert told(moved) == ['- config config.user: "" -> "1" in image']
    assert (moved.packed, moved.causeless) == (0, ())


def test_an_output_that_changed_for_an_equal_step_is_a_finding_with_its_path_and_derivation() -> None:
    moved = between(made(image(app()), {"app": {"bin/app": "one"}}), made(image(app()), {"app": {"bin/app": "three"}}))
    (found,) = moved.causeless
    assert (found.step, found.derivation, found.paths, found.size) == ("app", app().id, (b"bin/app",), 5)
    text = render(causeless_lines(moved), colour=False)
    assert "app, drv:" in text
    assert "    /bin/app" in text
    assert moved.causes == ()


def test_bytes_without_a_cause_are_found_beside_bytes_that_have_one() -> None:
    def one(number: str, files: Texts) -> Made:
        return made(image(app(), step("other", "script", flags=number)), {"app": files, "other": {"x": number}})

    moved = between(one("1", {"bin/app": "one"}), one("2", {"bin/app": "two"}))
    assert [one.cause.step for one in moved.causes] == ["other"]
    assert [(one.step, one.paths) for one in moved.causeless] == [("app", (b"bin/app",))]
    assert moved.size == 4


def test_the_step_below_that_gave_something_else_is_named_and_not_those_above_it() -> None:
    def one(text: str) -> Made:
        return made(image(app()), {"app": {"bin/app": f"built of {text}"}, "src": {"c": text}})

    (found,) = between(one("1"), one("2")).causeless
    assert found.step == "src"


def test_a_layer_that_moved_while_its_files_did_not_is_a_finding() -> None:
    files = {"app": {"bin/app": "x"}}
    old, new = made(image(app()), files), made(image(app()), files)
    layer = next(node for node in new.graph.nodes.values() if node.builder == "layer")
    gave = {**new.graph.outputs, layer.id: {"out": f"flat:sha256:{'9' * 64}", "descriptor": f"flat:sha256:{'8' * 64}"}}
    other = Made(new.image, Graph(nodes=new.graph.nodes, outputs=gave), new.trees, (f"sha256:{'9' * 64}",))
    (found,) = between(old, other).causeless
    assert (found.step, found.paths) == ("image layer app", ())


def test_a_tree_that_is_gone_leaves_the_bytes_of_layers() -> None:
    old, new = made(image(app()), {"app": {"x": "1"}}), made(image(app("-O3")), {"app": {"x": "2"}})
    moved = between(Made(old.image, old.graph, {}, old.layers), Made(new.image, new.graph, {}, new.layers))
    assert (moved.compared, moved.size, moved.packed) == (False, 0, 100)
    assert [one.cause.step for one in moved.causes] == ["app"]
    assert "no file could be compared" in render(sum_lines(moved), colour=False)


def patched(*names: str) -> Made:
    """Return a patched source that is put into an image as it is, with the byte code of its modules."""
    series: list[Json] = [
        {"operations": [{"op": "create", "path": name, "executable": False, "lines": []}]} for name in names
    ]
    labels = [f"patches/src/{name}.patch" for name in names]
    source = step("patched", "patch", {"source": step("src", "unpack")}, labels=labels, series=series)
    code = step("code", "bytecode", {"source": source})
    files = {"c.py": "1", **{name: f"new {name}" for name in names}}
    compiled = {f"__pycache__/{name[:-3]}.cpython-313.pyc": f"code of {text}" for name, text in files.items()}
    return made(image(source, code), {"src": {"c.py": "1"}, "patched": files, "code": compiled})


def test_a_patch_moves_the_files_that_it_names_with_their_byte_code_and_no_others() -> None:
    moved = between(patched("a.py"), patched("a.py", "bb.py", "ccc.py"))
    assert [one.paths for one in moved.causes] == [
        (b"__pycache__/ccc.cpython-313.pyc", b"ccc.py"),
        (b"__pycache__/bb.cpython-313.pyc", b"bb.py"),
    ]
    assert [one.weight.shared for one in moved.causes] == [0, 0]
    assert told(moved)[0].endswith("patches/src/ccc.py.patch added, as number 3: creates ccc.py of 0 bytes in patched")


def test_only_leaves_count_and_a_file_that_went_with_the_bytes_it_had() -> None:
    old, new = tree({"a/b": "12", "c": "3"}), tree({"a/b": "12", "d/e": "45"})
    assert changed_leaves(old, new) == {b"c": 1, b"d/e": 2}


def test_a_record_says_the_same_as_the_lines() -> None:
    files = {"app": {"bin/app": "one"}}
    document = moved_document(between(made(image(app()), files), made(image(app("-O3")), {"app": {"bin/app": "2"}})))
    causes = document["causes"]
    assert isinstance(causes, list)
    (cause,) = causes
    assert (cause["bytes"], cause["layers"], document["bytes"]) == (1, ["layer0"], 1)
