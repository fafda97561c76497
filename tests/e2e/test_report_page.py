# SPDX-License-Identifier: Apache-2.0
"""``derive records report`` as a person has it: the file, and how it looks in a real browser.

Edge: runs the command and headless Chromium.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.cli.main import main
from support.cli import CHECKOUT, derive
from support.reported import everything
from support.require import skip_or_fail

WIDTHS = (390, 1200, 1280)
FRAME = '<iframe src="page.html" style="width:{}px;height:2000px;border:0"></iframe>'
FRAMES = """<!DOCTYPE html><title>frames</title><body style="margin:0">
FRAME
<pre></pre><script>onload = () => { document.querySelector("pre").textContent = [...document.querySelectorAll("iframe")]
.map(frame => frame.contentDocument.documentElement)
.map(root => [root.clientWidth, root.scrollWidth, root.scrollHeight,
root.querySelector(".every").parentNode.scrollWidth - root.querySelector(".every").parentNode.clientWidth].join(" "))
.join(";") }</script>"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for path, data in everything().items():
        file = root / "records" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (root / "pyproject.toml").write_text("[tool.derive]\nformat = 1\n")
    return root


@dataclass(frozen=True, slots=True)
class Told:
    """How a command ended in this process: what starts a Python each time is tested once."""

    code: int
    out: str
    err: str


@pytest.fixture
def report(capfd: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def run(root: Path, *arguments: str) -> Told:
        code = main(["records", "report", "--project", str(root), *arguments])
        return Told(code, *capfd.readouterr())

    return run


def browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        skip_or_fail("no Chromium here to look at the page with: apt-get install chromium")
    return found


def test_the_page_in_a_browser_is_drawn_fits_its_width_and_says_no_error(
    project: Path, tmp_path: Path, report: Callable[..., Told]
) -> None:
    chromium = browser()
    ran = report(project, "--output", str(tmp_path / "page.html"))
    assert ran.code == 0, ran.err
    (tmp_path / "frames.html").write_text(FRAMES.replace("FRAME", "".join(FRAME.format(one) for one in WIDTHS)))
    shown = subprocess.run(
        [
            chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--allow-file-access-from-files", "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1700,2000",
            f"--screenshot={tmp_path / 'page.png'}", "--dump-dom", f"file://{tmp_path / 'frames.html'}",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    measured = re.search(r"<pre>([0-9 ;]+)</pre>", shown.stdout)
    assert measured is not None, shown.stderr[-2000:]
    frames = [tuple(map(int, one.split())) for one in measured[1].split(";")]
    assert [(shown_width, whole_width) for shown_width, whole_width, *_ in frames] == [(one, one) for one in WIDTHS]
    assert all(height > 1500 for _, _, height, _ in frames)
    assert [hidden for *_, hidden in frames] == [0] * len(WIDTHS)  # of the table of releases nothing is cut off
    assert "CONSOLE" not in shown.stderr
    assert colours(tmp_path / "page.png") > 100


def colours(png: Path) -> int:
    """Return how many values the bytes of a picture have, as PNG filters them: of a blank one a few."""
    data = png.read_bytes()
    place, packed = 8, b""
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + size]
        place += 12 + size
    return len(set(zlib.decompress(packed)))


def test_the_page_is_the_same_in_another_folder_locale_zone_and_order(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "deeper"
    shutil.copytree(project, other)
    pages = []
    for root, shuffled, language, zone in ((project, False, "C", "UTC"), (other, True, "de_DE.UTF-8", "Asia/Tokyo")):
        file = tmp_path / f"{zone.replace('/', '-')}.html"
        arguments = ("records", "report", "--project", str(root), "--output", str(file))
        ran = derive(*arguments, shuffled=shuffled, env={"LC_ALL": language, "TZ": zone})
        assert ran.code == 0, ran.err
        pages.append(file.read_bytes())
    assert pages[0] == pages[1]


def test_the_page_is_the_answer_where_no_file_is_named_and_json_is_what_it_says(
    project: Path, report: Callable[..., Told]
) -> None:
    page, said = report(project), json.loads(report(project, "--json").out)
    assert page.out.startswith("<!DOCTYPE html>")
    assert said["kind"] == "records-report"
    assert [one["name"] for one in said["body"]["releases"]] == ["e1", "e2", "e3", "demo-1", "demo-2", "demo-3"]
    assert (page.code, page.err) == (0, "note: 3 releases and 3 historical, 10 records; the chain holds\n")


def test_a_record_that_was_edited_is_said_and_ends_with_1(project: Path, report: Callable[..., Told]) -> None:
    file = project / "records/releases/0001-e1.json"
    file.write_bytes(file.read_bytes().replace(b"38.20", b"18.20"))
    ran = report(project)
    assert ran.code == 1
    assert "finding: records/releases/0001-e1.json: edited since it was written" in ran.err
    assert "they did not hold together" in ran.out


def test_what_cannot_be_written_is_said(project: Path, report: Callable[..., Told]) -> None:
    ran = report(project, "--output", str(project))
    assert ran.code == 2
    assert "this is a folder" in ran.err


def test_a_record_that_is_no_file_is_named(project: Path, report: Callable[..., Told]) -> None:
    (project / "records/audits/0002-x.json").symlink_to("/etc/passwd")
    ran = report(project)
    assert ran.code == 2
    assert "records/audits/0002-x.json" in ran.err


def test_this_repository_has_a_page(report: Callable[..., Told]) -> None:
    ran = report(CHECKOUT)
    assert ran.code == 0, ran.err
    assert "spark-ds41f" in ran.out
