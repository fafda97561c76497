# SPDX-License-Identifier: Apache-2.0
"""``derive fabric show`` and ``derive fabric plan``: which site they take, what they answer, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.cli.main import main
from derive.fabric.draw import draw
from derive.fabric.draw_svg import draw_svg
from support.cli import CHECKOUT
from support.fabrics import example_site, launching

RING = str(CHECKOUT / "fabric" / "examples" / "ring4.toml")


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no site of whoever runs the tests be found."""
    monkeypatch.delenv("DERIVE_SITE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(CHECKOUT)


def fabric(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["fabric", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_without_a_site_the_example_is_drawn_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = fabric(capfd, "show", "--cabling", "triangle")
    assert (code, out) == (0, draw(example_site("triangle")) + "\n")
    assert "fabric/examples/triangle.toml" in err


def test_a_wide_terminal_gets_a_wide_drawing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    assert fabric(capfd, "show")[1] == draw(example_site("ring4"), width=130) + "\n"


def test_a_site_that_is_named_is_drawn_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = fabric(capfd, "show", "--site", RING)
    assert (code, err) == (0, "")
    assert out.startswith("example-ring4: four Sparks in a ring, head spark1")


def test_a_picture_is_written_and_its_file_is_the_answer(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "fabric.svg"
    assert fabric(capfd, "show", "--svg", str(file))[:2] == (0, f"{file}\n")
    assert file.read_text() == draw_svg(example_site("ring4"))


def test_a_picture_may_be_the_answer_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert fabric(capfd, "show", "--svg", "-")[1] == draw_svg(example_site("ring4"))


def test_the_record_of_a_site_has_every_end(capfd: pytest.CaptureFixture[str]) -> None:
    record = json.loads(fabric(capfd, "show", "--json")[1])
    assert (record["kind"], record["subject"]) == ("fabric", "example-ring4")
    ends = [end for cable in record["body"]["cables"] for path in cable["paths"] for end in path["ends"]]
    assert len({end["address"] for end in ends}) == 16


def test_the_default_recipes_default_shape_is_planned(capfd: pytest.CaptureFixture[str]) -> None:
    body = json.loads(fabric(capfd, "plan", "--json")[1])["body"]
    assert (body["cabling"], body["size_bytes"]) == ("ring4", 16 * 6 * 10240)
    assert [step["rows"] for step in body["steps"]] == [6, 48, 96, 8192]


def test_the_cabling_of_the_shape_is_taken_and_of_a_lone_transport_one_that_carries_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    shape = json.loads(fabric(capfd, "plan", "--shape", "tp3-triangle", "--json")[1])["body"]
    alone = json.loads(fabric(capfd, "plan", "--transport", "oneshot-direct", "--json")[1])["body"]
    assert shape["cabling"] == alone["cabling"] == "triangle"
    assert alone["steps"] == []


def test_a_site_of_another_cabling_gives_way_to_the_example_unless_it_was_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = fabric(capfd, "plan", "--shape", "tp3-triangle", "--site", RING)
    assert code == 2
    assert "a site of another cabling\n       expected  triangle\n       got       ring4" in err
    monkeypatch.setenv("DERIVE_SITE", RING)
    code, _, err = fabric(capfd, "plan", "--shape", "tp3-triangle")
    example = "the example fabric/examples/triangle.toml is taken, whose addresses are those of documentation"
    assert (code, err) == (0, f"note: the site is a ring4: {example}\n")


def test_links_of_a_record_are_whole_bytes_that_add_up(capfd: pytest.CaptureFixture[str]) -> None:
    body = json.loads(fabric(capfd, "plan", "--transport", "oneshot-ring4", "--bytes", "10240", "--json")[1])["body"]
    [own] = [one for one in body["collectives"] if one["own"] and one["collective"] == "all-reduce"]
    cables = [link["bytes"] for link in own["links"] if link["kind"] == "cable"]
    assert cables == [15360] * 8
    assert own["limiting"]["kind"] == "root"
    assert own["equally_busy"] == 15


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--transport", "oneshot-ring"), "did you mean oneshot-ring4?"),
        (("--transport", "none"), "transport 'none' moves nothing that could be planned"),
        (("--recipe", "probe"), "recipes/probe.toml: shapes.ring4: transport 'none' moves nothing"),
        (("--transport", "oneshot-direct", "--cabling", "ring4"), "oneshot-direct cannot be on a ring4"),
        (("--shape", "tp5"), "no shape 'tp5' in this recipe"),
        (("--recipe", "nobody"), "no recipe is called 'nobody'"),
    ],
)
def test_what_cannot_be_planned_is_wrong_input_with_the_reason(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = fabric(capfd, "plan", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_lone_transport_is_planned_on_its_example_where_the_site_cannot_carry_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERIVE_SITE", RING)
    code, out, err = fabric(capfd, "plan", "--transport", "oneshot-direct")
    assert code == 0
    assert out.startswith("oneshot-direct on the triangle of example-triangle")
    assert "the site is a ring4: the example fabric/examples/triangle.toml is taken" in err
    code, _, err = fabric(capfd, "plan", "--transport", "oneshot-direct", "--site", RING)
    assert code == 2
    assert "oneshot-direct cannot be on a ring4" in err


def test_a_size_may_be_written_as_in_recipes(capfd: pytest.CaptureFixture[str]) -> None:
    body = json.loads(fabric(capfd, "plan", "--transport", "nccl-ring", "--bytes", "2MiB", "--json")[1])["body"]
    assert body["size_bytes"] == 2 * 2**20


def test_hops_are_as_many_as_steps_unless_cards_forward(capfd: pytest.CaptureFixture[str]) -> None:
    for cabling in ("ring4", "triangle"):
        asked = ("plan", "--transport", "nccl-ring", "--cabling", cabling, "--json")
        for case in json.loads(fabric(capfd, *asked)[1])["body"]["collectives"]:
            assert (case["hops"] == case["steps"]) is (case["algorithm"] != "mesh")


@pytest.mark.parametrize("size", ["0", "3", "-2", "1e3", "1B", "2MB", ""])
def test_sizes_are_whole_numbers_of_elements(capfd: pytest.CaptureFixture[str], size: str) -> None:
    with pytest.raises(SystemExit) as caught:
        fabric(capfd, "plan", "--bytes", size)
    assert caught.value.code == 2


def test_the_examples_in_the_help_run(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from derive.cli.fabric import plan, show

    assert launching()
    for module in (plan, show):
        for line in module.EXAMPLES.splitlines():
            words = line.split("  ")[1].split()
            if "fabric.svg" in words:
                words[-1] = str(tmp_path / "fabric.svg")
            assert fabric(capfd, *words[2:])[0] == 0
