"""Markdown of strangers as HTML that does nothing: no markup of theirs, no scripts, no request to anybody else."""

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

MAX_CHARACTERS = 300_000
_SAFE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def to_html(text: str) -> tuple[Markup, bool]:
    """The rendered text, and whether that is all of it."""
    html = _renderer().render(text[:MAX_CHARACTERS])
    return Markup(html), len(text) <= MAX_CHARACTERS  # noqa: S704 - the renderer escapes whatever it does not make


@cache
def _renderer() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    markdown.add_render_rule("link_open", _open_link)
    markdown.add_render_rule("image", _name_image)
    return markdown


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    """Links lead to web pages and mail addresses; what is relative leads nowhere, since it was another site's."""
    target = str(tokens[index].attrGet("href") or "")
    if not _SAFE.match(target):
        return "<a>"
    return str(Markup('<a href="{}" rel="noopener noreferrer nofollow" target="_blank">').format(target))


def _name_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    """Pictures are named, not loaded: loading one would tell its server who reads here."""
    token = tokens[index]
    alternative = renderer.renderInlineAsText(token.children or [], options, env)
    return f'<span class="picture">{escape(alternative or "picture")}</span>'
