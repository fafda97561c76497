# SPDX-License-Identifier: Apache-2.0
"""Whatever text a record holds, it is text on the page: elements and attributes stay the same."""

from __future__ import annotations

from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st

from derive.canonical import Json
from derive.report.gather import gather
from derive.report.page import page
from derive.report.read import page_template
from support.html import Outline, outline
from support.reported import START, Records, release

MARKUP = st.sampled_from(
    [
        "<script>",
        "</svg>",
        "</title>",
        "<!--",
        "-->",
        "]]>",
        "&lt;",
        "&#x3c;",
        '"',
        "'",
        "{{ 7*7 }}",
        "{% raw %}",
        "\u202e",
        "\x00",
        "\n",
        " onload=x ",
        "=",
    ]
)
TEXT = st.lists(st.one_of(MARKUP, st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), max_size=6).map(
    lambda parts: "<" + "".join(parts)
)


def records(text: str) -> dict[str, bytes]:
    """Return records that say a text wherever they can say any."""
    found = Records()
    figure: dict[str, Json] = {
        "name": text,
        "case": text,
        "shape": text,
        "source": text,
        "note": text,
        "value_ms": 1,
        "against": {"name": text, "value_ms": 2},
    }
    for revision in ("a", "b"):
        found.historical(
            "e1" if revision == "a" else "e2",
            "2026-10-01",
            deployment=text,
            known_from=[text],
            kernel_backend=revision + text,
            identities={"sources": {text: {"revision": revision + text}}},
            shapes={text: {text: revision + text}},
            figures=[figure, {**figure, "value_ms": 3}, {"name": "z", f"value_{text}": 3}],
            changes=[{"text": text, "source": text}],
        )
    demo, facts = release("demo")
    found.candidate("demo-1", demo, facts, 0, None, text)
    waiver: Json = {"kind": "waiver", "digest": None, "file": None, "shape": "ring", "reason": text, "expires_s": 9}
    found.promoted("demo-1", demo, "ring", 1, [waiver])
    found.append("experiment", "wider", {text: text, "hypothesis": text})
    found.beside("derivability/1.json", text, text, {"score_bp": 7, "checked_s": START, "counts": {text: 3}})
    found.beside("audits/1.json", text, text, {text: text})
    found.beside(f"audits/{text}.json", text, text, {"verdict": text})
    found.files["audits/broken.json"] = text.encode()
    return found.files


def drawn(text: str) -> Outline:
    return outline(page(gather(records(text)), page_template()))


@cache
def harmless(*, printable: bool) -> list[str]:
    """Return the page's markup; what cannot be printed is a fault of the record, and the page says that too."""
    return drawn("not a name" if printable else "not a name\x1f").order


@given(TEXT)
@example("</code></td><script>alert(1)</script>")
@example('" onmouseover="alert(1)')
@example("{{ account.__class__ }}")
@settings(deadline=None, max_examples=25)
def test_no_text_of_a_record_becomes_markup(text: str) -> None:
    found = drawn(text)
    assert found.wrong == []
    assert found.order == harmless(printable=text.isprintable())
