"""The site that crawlers are measured on: realistic pages of 20–80 KB in five templates, all following from a seed.

    python bench/site_pages.py --write FOLDER --pages 5000     files for a static server
    python bench/site_pages.py --serve --pages 50000           made on the fly; prints its address

Besides its pages the site has a redirect `/old/N`, a copy `/copy/N.html` and a dead link `/gone/N` for some of them.
"""

import argparse
import asyncio
import html
import json
import random
import sys
from pathlib import Path

PER_CATEGORY = 50
REDIRECT_EVERY, COPY_EVERY, GONE_EVERY = 30, 50, 40
KINDS = ("article", "documentation", "forum", "product", "listing")
STEMS = (
    "able acre admit after agent alarm album alert alike allow alone amber angle apple arena argue aside asset audit "
    "avoid award aware badge baker basic basin beach begin below bench birth black blade blank blend block board bonus "
    "boost bound brain brand bread break brick brief bring broad brown brush build cabin cable candy cargo carry catch "
    "cause chain chair chart chase cheap check chest chief child civic claim class clean clear climb clock close cloud "
    "coach coast color count court cover craft crane cream crowd curve cycle daily dance delay depth diary draft dream "
    "drive eager early earth elect empty enjoy enter entry equal event exact exist extra faith fault feast fence field "
    "final first flame fleet floor focus force forge forum frame fresh front fruit funny giant glass globe grace grade "
    "grain grant graph grass great green group guard guide habit happy harsh heart heavy hinge honey horse hotel house "
    "ideal image index inner input issue ivory joint judge juice known label large laser later layer learn lease level "
    "light limit linen local logic loose lower lucky lunar magic major maple march match maybe metal meter minor model "
    "money month motor mount mouse music nerve never night noble noise north novel ocean offer olive onion orbit order "
    "other outer owner panel paper party pause peace phase phone photo piano piece pilot pitch place plain plane plant "
    "plate point pound power press price pride prime print prize proof proud quick quiet quote radio raise range rapid "
    "ratio reach react ready realm reply rider ridge right river robin rough round route royal rural scale scene scope "
    "score sense serve seven shade shape share sharp sheet shelf shell shift shine shirt shore short sight skill slate "
    "sleep slice slope small smart smoke solid solve sound south space spare spend spice split sport staff stage stair "
    "stand state steam steel stone store storm story strip study style sugar sunny table taste teach thing think tiger"
)
ENDINGS = ("", "", "", "s", "ed", "ing", "ly", "er", "ment", "ful")
SMALL = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an"
WORDS = [stem + ending for stem in STEMS.split() for ending in ENDINGS]
SMALL_WORDS = SMALL.split()


class BenchSite:
    def __init__(self, pages: int, seed: int = 0) -> None:
        self.pages = pages
        self.seed = seed
        self.categories = -(-pages // PER_CATEGORY)

    @property
    def expected(self) -> int:
        """How many addresses answer with a page: home, categories, pages, copies."""
        return 1 + self.categories + self.pages + -(-self.pages // COPY_EVERY)

    def body(self, path: str) -> str | None:
        """The page at this path, or None when there is none."""
        if path == "/":
            return self._home()
        kind, _, name = path.strip("/").partition("/")
        if not name.removesuffix(".html").isdecimal():
            return None
        number = int(name.removesuffix(".html"))
        if kind == "category" and number < self.categories:
            return self._category(number)
        if kind == "page" and number < self.pages:
            return self._page(number)
        if kind == "copy" and number < self.pages and number % COPY_EVERY == 0:
            return self._page(number)
        return None

    def paths(self) -> list[str]:
        return [
            "/",
            *(f"/category/{number}.html" for number in range(self.categories)),
            *(f"/page/{number}.html" for number in range(self.pages)),
            *(f"/copy/{number}.html" for number in range(0, self.pages, COPY_EVERY)),
        ]

    def _home(self) -> str:
        chance = random.Random(f"{self.seed}:home")
        links = [_link(f"/category/{number}.html", f"Category {number}") for number in range(self.categories)]
        return self._frame(chance, "Home", f"<ul>{''.join(f'<li>{each}</li>' for each in links)}</ul>", 0)

    def _category(self, number: int) -> str:
        chance = random.Random(f"{self.seed}:category:{number}")
        first = number * PER_CATEGORY
        cards = "".join(
            f'<div class="card"><h3>{_link(f"/page/{each}.html", _title(chance))}</h3>'
            f"<p>{_sentences(chance, 2)}</p></div>"
            for each in range(first, min(first + PER_CATEGORY, self.pages))
        )
        return self._frame(chance, f"Category {number}", f'<div class="cards">{cards}</div>', number)

    def _page(self, number: int) -> str:
        chance = random.Random(f"{self.seed}:page:{number}")
        kind = KINDS[number % len(KINDS)]
        title = f"{_title(chance)} {number}"
        target = chance.randrange(20_500, 76_000)
        content = [_CONTENTS[kind](chance, number, self._inline_links(chance, number))]
        while sum(map(len, content)) < target - 10_000:
            content.append(_section(chance))
        return self._frame(chance, title, "".join(content), number // PER_CATEGORY, kind)

    def _inline_links(self, chance: random.Random, number: int) -> list[str]:
        links = [f"/page/{chance.randrange(self.pages)}.html" for _ in range(18)]
        links.append(f"/page/{(number + 1) % self.pages}.html")
        for kind, every, end in (
            ("old", REDIRECT_EVERY, ""), ("copy", COPY_EVERY, ".html"), ("gone", GONE_EVERY, "")
        ):  # fmt: skip
            if number % every == 0:
                links.append(f"/{kind}/{number}{end}")
        return links

    def _frame(self, chance: random.Random, title: str, content: str, category: int, kind: str = "listing") -> str:
        around = [(category + step) % self.categories for step in range(12)]
        menu = "".join(
            f'<li class="menu-item">{_link(f"/category/{each}.html", f"Category {each}")}</li>' for each in around
        )
        related = "".join(
            f"<li>{_link(f'/page/{chance.randrange(self.pages)}.html', _title(chance))}</li>" for _ in range(15)
        )
        footer = "".join(
            f"<li>{_link(f'/category/{chance.randrange(self.categories)}.html', _title(chance))}</li>"
            for _ in range(10)
        )
        return _FRAME.format(
            title=html.escape(title), kind=kind, style=_STYLE, script=_script(chance), menu=menu, content=content,
            related=related, footer=footer, description=_sentences(chance, 1), data=_json_ld(chance, title),
            blurb=_sentences(chance, 3),
        )  # fmt: skip


def _words(chance: random.Random, count: int) -> list[str]:
    return [chance.choice(SMALL_WORDS) if chance.random() < 0.35 else chance.choice(WORDS) for _ in range(count)]


def _sentences(chance: random.Random, count: int) -> str:
    return " ".join(" ".join(_words(chance, chance.randrange(7, 24))).capitalize() + "." for _ in range(count))


def _title(chance: random.Random) -> str:
    return " ".join(_words(chance, chance.randrange(2, 6))).title()


def _link(address: str, text: str) -> str:
    return f'<a href="{address}">{text}</a>'


def _paragraph(chance: random.Random) -> str:
    text = _sentences(chance, chance.randrange(3, 8))
    return f"<p>{text} <strong>{' '.join(_words(chance, 3))}</strong> <em>{' '.join(_words(chance, 2))}</em>.</p>"


def _table(chance: random.Random) -> str:
    head = "".join(f"<th>{chance.choice(WORDS).title()}</th>" for _ in range(5))
    row = lambda: "".join(f"<td>{chance.choice(WORDS)} {chance.randrange(9999)}</td>" for _ in range(5))  # noqa: E731
    rows = "".join(f"<tr>{row()}</tr>" for _ in range(chance.randrange(4, 14)))
    return f'<table class="data"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _code(chance: random.Random) -> str:
    lines = "\n".join(
        f"    {chance.choice(WORDS)}_{chance.choice(WORDS)} = {chance.choice(WORDS)}({chance.randrange(999)})"
        for _ in range(chance.randrange(5, 20))
    )
    return f'<pre><code class="language-python">def {chance.choice(WORDS)}():\n{html.escape(lines)}\n</code></pre>'


def _section(chance: random.Random) -> str:
    parts = [f"<h2>{_title(chance)}</h2>", *(_paragraph(chance) for _ in range(chance.randrange(3, 7)))]
    extra = chance.random()
    if extra < 0.2:
        parts.append(_table(chance))
    elif extra < 0.4:
        parts.append(_code(chance))
    elif extra < 0.6:
        parts.append("<ul>" + "".join(f"<li>{_sentences(chance, 1)}</li>" for _ in range(6)) + "</ul>")
    elif extra < 0.8:
        parts.append(
            f'<figure><img src="/i/{chance.randrange(9999)}.jpg" alt="x">'
            f"<figcaption>{_title(chance)}</figcaption></figure>"
        )
    return f"<section>{''.join(parts)}</section>"


def _with_links(chance: random.Random, links: list[str]) -> str:
    return "".join(
        f"<p>{_sentences(chance, 2)} {_link(link, _title(chance))}. {_sentences(chance, 1)}</p>" for link in links
    )


def _article(chance: random.Random, number: int, links: list[str]) -> str:
    byline = f'<p class="byline">By {_title(chance)} on <time datetime="2026-0{1 + number % 9}-11">a day</time></p>'
    return byline + _with_links(chance, links)


def _documentation(chance: random.Random, number: int, links: list[str]) -> str:
    return _paragraph(chance) + _code(chance) + _table(chance) + _with_links(chance, links) + _code(chance)


def _forum(chance: random.Random, number: int, links: list[str]) -> str:
    return "".join(
        f'<div class="post"><div class="author">{chance.choice(WORDS)}{each}<span class="rank">Member</span></div>'
        f'<div class="message"><p>{_sentences(chance, 4)} {_link(link, _title(chance))}</p></div>'
        '<div class="actions"><a href="#reply">Reply</a> <a href="#quote">Quote</a></div></div>'
        for each, link in enumerate(links)
    )


def _product(chance: random.Random, number: int, links: list[str]) -> str:
    price = f'<div class="price"><span>{chance.randrange(5, 900)}.99</span> <button>Add to cart</button></div>'
    return price + _paragraph(chance) + _table(chance) + _with_links(chance, links)


def _listing(chance: random.Random, number: int, links: list[str]) -> str:
    return "".join(
        f'<article class="teaser"><h3>{_link(link, _title(chance))}</h3><p>{_sentences(chance, 2)}</p>'
        f'<span class="meta">{chance.randrange(900)} views</span></article>'
        for link in links
    )


_CONTENTS = {
    "article": _article, "documentation": _documentation, "forum": _forum, "product": _product, "listing": _listing
}  # fmt: skip


def _script(chance: random.Random) -> str:
    entries = {chance.choice(WORDS): chance.randrange(10**9) for _ in range(60)}
    return f"window.__state__ = {json.dumps(entries)};" + "(function(){var q=[];function t(e){q.push(e)}})();" * 20


def _json_ld(chance: random.Random, title: str) -> str:
    facts = {"@context": "https://schema.org", "@type": "Article", "headline": title, "author": _title(chance)}
    return json.dumps(facts)


_STYLE = "".join(
    f".block-{n} > .inner-{n} {{ margin: {n}px; padding: 0 {n}px; color: #3{n % 10}4 }}\n" for n in range(60)
)
_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} | The Bench</title>
<meta name="description" content="{description}"><meta property="og:title" content="{title}">
<meta name="viewport" content="width=device-width"><script type="application/ld+json">{data}</script>
<style>{style}</style><script>{script}</script></head>
<body class="{kind}"><header class="site-header"><div class="logo"><a href="/">The Bench</a></div>
<nav class="main-nav"><ul>{menu}</ul></nav><form class="search"><input name="q"><button>Search</button></form></header>
<div class="cookie-banner">We use cookies. <button>Accept</button></div>
<div class="layout"><main id="content"><h1>{title}</h1>{content}</main>
<aside class="sidebar"><h4>Related</h4><ul>{related}</ul><div class="ad">Advertisement</div></aside></div>
<footer><p>{blurb}</p><ul>{footer}</ul><p>&copy; 2026 The Bench. All rights reserved.</p></footer>
<script>document.querySelector('.cookie-banner').remove();</script></body></html>
"""


def write_site(site: BenchSite, folder: Path) -> None:
    for path in site.paths():
        file = folder / ("index.html" if path == "/" else path.strip("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        body = site.body(path)
        assert body is not None
        file.write_text(body)


async def serve(site: BenchSite) -> None:
    """On the fly, for a site too large to lie on a disk; the same redirects and dead links as the files' server has."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        kind, _, number = request.path.strip("/").partition("/")
        if kind == "old" and number.isdecimal():
            raise web.HTTPMovedPermanently(f"/page/{number}.html")
        body = site.body(request.path)
        if body is None:
            raise web.HTTPNotFound
        return web.Response(text=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    site = BenchSite(options.pages, options.seed)
    if options.write:
        write_site(site, options.write)
    if options.serve:
        try:
            asyncio.run(serve(site))
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
