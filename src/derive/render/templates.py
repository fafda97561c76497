# SPDX-License-Identifier: Apache-2.0
"""The text around values: templates of ``render/``, which may do little, so that no value gets into them unquoted.

Core: no IO. Imports Jinja2, late.

A template has text, ``if`` and ``for``, and names of values; each value goes through a filter that belongs to the kind
of file. There are no attributes, calls, other filters, includes or globals: nothing that could ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from derive.errors import InputErrors, Problem, expected_got
from derive.render import quoting

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

Value: TypeAlias = "str | Sequence[str] | Sequence[Sequence[str]] | None"

FOLDER = "render"
_SCRIPT = ("shell", "comment")
_UNIT = ("systemd", "systemd_text", "comment")
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "run": _SCRIPT,
    "await-guard": _SCRIPT,
    "slice": _UNIT,
    "service": _UNIT,
    "guard-startup": _UNIT,
    "guard-steady": _UNIT,
}
"""Each template, and the filters that quote for what it becomes."""

_FILTERS: Mapping[str, Callable[..., str]] = {
    "shell": quoting.shell,
    "comment": quoting.comment,
    "systemd": quoting.systemd,
    "systemd_text": quoting.systemd_text,
}
_ALLOWED = frozenset({"Template", "Output", "TemplateData", "For", "If", "Name", "Filter", "Not", "And", "Or"})


class Templates:
    """The templates of a project, each compiled when it is first used."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._rendered = lru_cache(maxsize=None)(self._compiled)

    def render(self, name: str, values: Mapping[str, Value]) -> bytes:
        """Return a template's text with values in it.

        Raises:
            InputErrors: when there is no such template, it cannot be read, or says more than a template may.
        """
        from jinja2 import UndefinedError

        file = path_of(name)
        try:
            return self._rendered(name)(values).encode("utf-8")
        except UndefinedError as error:
            raise InputErrors.one(f"no such value: {error.message}", where=file, hint=_known(values)) from error
        except ValueError as error:
            raise InputErrors.one(str(error), where=file) from error

    def _compiled(self, name: str) -> Callable[[Mapping[str, Value]], str]:
        from jinja2 import Template

        environment = _environment()
        code = environment.compile(_parsed(environment, self._files, name), filename=path_of(name))
        return Template.from_code(environment, code, {}).render


def path_of(name: str) -> str:
    """Return where a template lies in a project."""
    return f"{FOLDER}/{name}.j2"


def template_problems(files: Mapping[str, bytes]) -> tuple[Problem, ...]:
    """Return what is wrong with each template of a project: those that are not there, and what they may not say."""
    environment = _environment()
    found: list[Problem] = []
    for name in TEMPLATES:
        try:
            _parsed(environment, files, name)
        except InputErrors as error:
            found += error.problems()
    return tuple(found)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the settings of every template: what is not there is an error, and nothing is there but four filters."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - no HTML: each value goes through the filter of its own language
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
        cache_size=0,
    )
    environment.globals.clear()
    environment.filters.clear()
    environment.tests.clear()
    environment.filters.update(_FILTERS)
    return environment


def _parsed(environment: Environment, files: Mapping[str, bytes], name: str) -> nodes.Template:
    from jinja2 import TemplateError, TemplateSyntaxError

    file = path_of(name)
    data = files.get(file)
    if data is None:
        raise InputErrors.one(
            "no such file, and every launch needs it", where=file, hint="take it from a project's render/"
        )
    try:
        tree = environment.parse(data.decode("utf-8"), name, file)
    except UnicodeDecodeError as error:
        raise InputErrors.one(f"not UTF-8, at byte {error.start}", where=file) from error
    except TemplateSyntaxError as error:
        raise InputErrors.one(f"not a template: {error.message}", where=f"{file}: line {error.lineno}") from error
    except TemplateError as error:
        raise InputErrors.one(f"not a template: {error}", where=file) from error
    problems = [
        Problem(where=f"{file}: line {line}", message=text, detail=detail)
        for line, text, detail in _breaches(tree, TEMPLATES[name])
    ]
    if problems:
        raise InputErrors(problems)
    return tree


def _breaches(tree: nodes.Template, filters: Sequence[str]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield the line, the message and the details of what a template says and may not."""
    from jinja2 import nodes

    waiting: list[nodes.Node] = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node).__name__
        if kind not in _ALLOWED:
            text = f"a template may not say this: {kind.lower()}"
            yield node.lineno, text, expected_got("text, if, for, names and filters", kind)
            continue
        if isinstance(node, nodes.Output):
            for part in node.nodes:
                if not isinstance(part, (nodes.TemplateData, nodes.Filter)):
                    yield (
                        part.lineno,
                        "a value without a filter that quotes it",
                        expected_got(f"{{{{ value | {filters[0]} }}}}", f"{{{{ {_said(part)} }}}}"),
                    )
        if isinstance(node, nodes.Filter) and (node.name not in filters or node.args or node.kwargs):
            yield (
                node.lineno,
                f"{node.name} does not quote for this file",
                expected_got(" or ".join(filters), node.name),
            )
        waiting += node.iter_child_nodes()


def _said(node: nodes.Node) -> str:
    return str(getattr(node, "name", "..."))


def _known(values: Mapping[str, Value]) -> str:
    return f"values: {', '.join(sorted(values))}"
