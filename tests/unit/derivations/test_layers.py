# SPDX-License-Identifier: Apache-2.0
"""Splits in image files: which layers they make, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.canonical import sha256
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import BuiltInput, Derivation, Platform, closure
from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from derive.images.split import shared_place
from derive.lock.documents import PythonLock, WheelEntry
from support.projects import FILES, pinned, project

WISH = str(FILES["lock/w.toml"])
NAMES = ("aa", "bb", "cc", "dd", "ee")


def entry(name: str, version: str = "1") -> WheelEntry:
    file = f"{name}-{version}-py3-none-any.whl"
    return WheelEntry(name=name, version=version, file=file, size=1, sha256=sha256(file.encode()), licence="MIT")


def wheels(*entries: WheelEntry) -> bytes:
    files = tuple(sorted(one.file for one in entries))
    ordered = tuple(sorted(entries, key=lambda one: one.key))
    lock = PythonLock(
        set="w",
        wish=sha256(b""),
        wheels=ordered,
        targets={f"cp313-{arch}": files for arch in ("amd64", "arm64")},
    )
    return pinned(replace(lock, set="w"), WISH)


IMAGE = """\
platforms = ["linux/amd64", "linux/arm64"]
default-platform = "linux/amd64"

[[layers]]
name = "{name}"
from = [{source}]
[layers.split]
{split}
"""


def made(
    split: str, *, entries: tuple[WheelEntry, ...] = tuple(map(entry, NAMES)), source: str = "programs", more: str = ""
) -> Derivation:
    text = IMAGE.format(name="w", source=f'"{source}"', split=split) + more
    return evaluator(text, *entries).image("image", "linux/amd64")


def evaluator(text: str, *entries: WheelEntry) -> Evaluator:
    files: dict[str, str | bytes | None] = {"lock/w.lock.json": wheels(*entries), "images/image.toml": text}
    return Evaluator(load_scope(project(files)))


def layers(image: Derivation) -> dict[str, Derivation]:
    """Return the layer steps of an image, the lowest first, by what they are called after the image's name."""
    given = [reference.derivation for role, reference in image.inputs.items() if role.startswith("blob.")]
    return {one.name.removeprefix("image layer "): one for one in given}


def names(split: str, **more: object) -> list[str]:
    return list(layers(made(split, **more)))  # type: ignore[arg-type]


def shared(name: str, count: int) -> str:
    return f"w/shared {shared_place(name, count):02d}"


def test_packages_have_layers_of_their_own_or_share_some_by_their_names() -> None:
    found = names('own = ["bb", "aa"]\nshared = 3')
    places = sorted({shared(name, 3) for name in ("cc", "dd", "ee")})
    assert found == ["w/common", *places, "w/aa", "w/bb"]


def test_what_is_native_of_a_package_lies_below_all_else() -> None:
    found = names('own = ["bb", "aa"]\nshared = 1\nnative = ["*.so"]')
    assert found == ["w/aa native", "w/bb native", "w/common", "w/shared 01", "w/aa", "w/bb"]


def test_a_shared_layer_without_packages_is_not_made() -> None:
    assert names('own = ["aa", "bb", "cc", "dd"]\nshared = 90')[1] == shared("ee", 90)


def test_one_wheel_alone_has_nothing_in_common() -> None:
    assert names('own = ["aa"]', entries=(entry("aa"),)) == ["w/aa"]


def test_every_layer_of_a_split_may_be_left_out_and_no_other() -> None:
    more = '\n[[layers]]\nname = "base"\nfrom = ["root"]\n'
    image = made('own = ["aa"]\nshared = 1', more=more)
    assert image.arguments["layers"] == 4
    assert image.arguments["optional"] == [0, 1, 2]
    assert "optional" not in Evaluator(load_scope(project({}))).image("image", "linux/amd64").arguments


def test_another_wheel_touches_its_own_layers_alone_and_the_common_one() -> None:
    split = 'own = ["aa", "bb"]\nshared = 2\nnative = ["*.so"]'
    before = layers(made(split))
    after = layers(made(split, entries=(entry("aa", "2"), *map(entry, NAMES[1:]))))
    assert before.keys() == after.keys()
    trees = {name: [one.inputs["tree.0"], before[name].inputs["tree.0"]] for name, one in after.items()}
    moved = {name for name, (one, other) in trees.items() if one.document() != other.document()}
    assert moved == {"w/aa", "w/aa native", "w/common"}


def test_the_order_in_which_packages_and_patterns_stand_moves_no_id() -> None:
    one = made('own = ["aa", "bb"]\nshared = 2\nnative = ["*.so", "*.a"]')
    assert one == made('own = ["bb", "aa"]\nshared = 2\nnative = ["*.a", "*.so"]')


def test_another_number_of_shared_layers_moves_no_layer_of_a_package() -> None:
    one, other = (layers(made(f'own = ["aa"]\nshared = {count}')) for count in (2, 3))
    assert one["w/aa"] == other["w/aa"]


def test_wheels_that_are_split_are_united_once_with_all_else() -> None:
    image = made('own = ["aa"]\nshared = 1', more='\n[[layers]]\nname = "base"\nfrom = ["root"]\n')
    assert list(image.inputs["root"].derivation.inputs) == [*(f"w/programs/{name}" for name in NAMES), "base/root"]
    assert [one.name for one in closure(image) if one.builder == "compose"] == ["image root"]


def test_a_root_is_cut_once_into_its_packages_what_is_shared_and_a_base() -> None:
    image = made('own = ["b"]\nshared = 1', source="root")
    assert list(layers(image)) == ["w/b", "w/shared 01", "w/base"]
    cuts = [one for one in closure(image) if one.builder == "split"]
    assert [one.arguments for one in cuts] == [{"by": "package", "own": ["b"], "shared": 1}]
    assert [one.inputs["tree.0"].output for one in layers(image).values()] == ["own b", "shared 01", "out"]


def test_layers_of_a_set_that_carries_streams_name_the_wheels_they_are_made_of() -> None:
    carrying = '\n[encoding]\nname = "gzip-members/2"\n'
    image = made('own = ["aa"]\nshared = 1\nnative = ["*.so"]', more=carrying)
    given = {
        name: {reference.derivation.name for role, reference in one.inputs.items() if role.startswith("archive.")}
        for name, one in layers(image).items()
    }
    rest = {entry(name).file for name in NAMES[1:]}
    own = {entry("aa").file}
    assert given == {"w/aa native": own, "w/common": set(), "w/shared 01": rest, "w/aa": own}


def test_an_overlay_lies_over_the_layers_of_a_split() -> None:
    from derive.derivations.evaluate import Overlay

    text = IMAGE.format(name="w", source='"programs"', split='own = ["aa"]\nshared = 1')
    run = evaluator(text, *map(entry, NAMES))
    overlay = Overlay(name="tools", at="opt", tree=sha256(b""))
    image, base = run.dev_image("image", None, [overlay]), run.image("image", None)
    assert list(layers(image))[:-1] == list(layers(base))
    assert image.arguments["optional"] == base.arguments["optional"]
    added = image.inputs[f"blob.{len(layers(base))}"]
    assert isinstance(added, BuiltInput)
    assert added.derivation.name == "image layer overlay"


def problems(text: str, **files: str | bytes) -> list[tuple[str, str]]:
    given: dict[str, str | bytes | None] = {
        "lock/w.lock.json": wheels(*map(entry, NAMES)),
        "images/image.toml": text,
        **files,
    }
    with pytest.raises(InputErrors) as caught:
        load_scope(project(given))
    return [(one.where.removeprefix("images/image.toml: "), one.message) for one in caught.value.problems()]


WRONG = {
    "an unknown package": (
        'own = ["aa", "ab"]\nshared = 1',
        '"programs"',
        [("layers[0].split.own[1]", "no package of the lock set w is named 'ab'")],
    ),
    "an unknown Debian package": (
        'own = ["zz"]\nshared = 1',
        '"root"',
        [("layers[0].split.own[0]", "no package of the lock set x is named 'zz'")],
    ),
    "several trees": (
        'own = ["aa"]\nshared = 1',
        '"programs", "script"',
        [("layers[0].from", "a layer that is split has one derivation, and this has 2")],
    ),
    "a tree of no packages": (
        "shared = 1",
        '"script"',
        [("layers[0].from[0]", "script cannot be split: only wheels and debian-root are made of packages")],
    ),
    "native of a Debian root": (
        'own = ["b"]\nshared = 1\nnative = ["*.so"]',
        '"root"',
        [("layers[0].split.native", "root is a debian-root: native is for wheels")],
    ),
    "native of nothing": (
        'shared = 1\nnative = ["*.so"]',
        '"programs"',
        [("layers[0].split.native", "decides nothing: it is for packages of own, and there are none")],
    ),
    "packages without a layer": (
        'own = ["aa"]',
        '"programs"',
        [("layers[0].split.shared", "no layer for bb, cc, dd, ee")],
    ),
    "nothing at all": ("", '"programs"', [("layers[0].split.shared", "no layer for aa, bb, cc, dd, ee")]),
    "a package twice": (
        'own = ["aa", "aa"]\nshared = 1',
        '"programs"',
        [("layers[0].split.own", "named twice: aa")],
    ),
    "numbers that are none": (
        "shared = 100",
        '"programs"',
        [("layers[0].split.shared", "input should be less than or equal to 99")],
    ),
    "patterns that are none": (
        'own = ["aa"]\nshared = 1\nnative = ["", "/usr/*"]',
        '"programs"',
        [
            ("layers[0].split.native[0]", "not a pattern of paths, which do not begin with a slash"),
            ("layers[0].split.native[1]", "not a pattern of paths, which do not begin with a slash"),
        ],
    ),
    "an unknown key": ('owns = ["aa"]\nshared = 1', '"programs"', [("layers[0].split.owns", "unknown key")]),
    "a name that is absent is said once": (
        "shared = 1",
        '"other"',
        [("layers[0].from[0]", "no derivation is named 'other'")],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_split_is_refused_with(what: str) -> None:
    split, source, expected = WRONG[what]
    assert problems(IMAGE.format(name="w", source=source, split=split)) == expected


def test_a_package_that_is_left_out_is_no_package() -> None:
    table = str(FILES["derivations/d.toml"]).replace('set = "w"', 'set = "w"\nwithout = { bb = "unused" }')
    text = IMAGE.format(name="w", source='"programs"', split='own = ["bb"]\nshared = 1')
    assert problems(text, **{"derivations/d.toml": table}) == [("layers[0].split.own[0]", "bb is left out by without")]


def test_a_package_that_is_for_one_platform_alone_may_be_named() -> None:
    lock = PythonLock(
        set="w",
        wish=sha256(b""),
        wheels=(entry("aa"), entry("bb")),
        targets={"cp313-amd64": (entry("aa").file, entry("bb").file), "cp313-arm64": (entry("aa").file,)},
    )
    text = IMAGE.format(name="w", source='"programs"', split='own = ["aa", "bb"]')
    run = Evaluator(load_scope(project({"lock/w.lock.json": pinned(lock, WISH), "images/image.toml": text})))
    found: dict[Platform, list[str]] = {
        platform: list(layers(run.image("image", platform))) for platform in ("linux/amd64", "linux/arm64")
    }
    assert found == {"linux/amd64": ["w/common", "w/aa", "w/bb"], "linux/arm64": ["w/aa"]}


def test_an_image_that_could_have_more_than_a_hundred_layers_is_refused_with_what_each_split_makes() -> None:
    one = IMAGE.format(name="one", source='"programs"', split='own = ["aa"]\nshared = 48')
    other = '[[layers]]\nname = "two"\nfrom = ["root"]\nsplit = { shared = 49 }\n'
    text = f"{one}\n{other}"
    assert evaluator(text, *map(entry, NAMES)).image("image", None).arguments["optional"]
    with pytest.raises(InputErrors) as caught:
        evaluator(text.replace("48", "49"), *map(entry, NAMES))
    (problem,) = caught.value.problems()
    assert problem.where == "images/image.toml: layers"
    assert problem.message == "up to 101 layers, and an image has at most 100"
    assert problem.detail == ("one  up to 51", "two  up to 50")
