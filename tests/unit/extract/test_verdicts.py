"""Block pages, walls, shells and disguised 404s are told from content, and content from them."""

import pytest

from scrubjay.extract.tree import parse_html, text_of
from scrubjay.extract.verdicts import judge
from scrubjay.model.extraction import Verdict

URL = "https://example.com/page"
ARTICLE = "Scrub jays hide acorns and remember where. " * 20


def verdict(html: str, *, status: int = 200, url: str = URL, text: str | None = None) -> Verdict:
    page = parse_html(html)
    assert page is not None
    title = next(map(text_of, page.find("title")), None)
    found, reason = judge(status=status, text=text, title=title, page=page, url=url)
    assert (reason is None) == (found is Verdict.CONTENT)
    return found


BLOCKED = {
    "cloudflare": """<title>Just a moment...</title><div id="challenge-error-text">Enable JavaScript and cookies to
        continue</div><script>window._cf_chl_opt={cvId:'3'}</script>""",
    "cloudflare 1020": """<title>Access denied | example.com used Cloudflare to restrict access</title>
        <div id="cf-error-details"><h1>Error 1020</h1><p>Ray ID: 7d</p></div>""",
    "akamai": """<title>Access Denied</title><h1>Access Denied</h1>You don't have permission to access
        "http://example.com/" on this server.<p>Reference #18.4f1c1202.1700000000.1b2c3d</p>
        <p>https://errors.edgesuite.net/18.4f1c1202</p>""",
    "perimeterx": """<title>Access to this page has been denied</title><div id="px-captcha"></div>
        <p>Press &amp; Hold to confirm you are a human (and not a bot).</p>""",
    "datadome": """<title>example.com</title><p>Please enable JS and disable any ad blocker</p>
        <script>var dd={'rt':'c','cid':'x','host':'geo.captcha-delivery.com'}</script>""",
    "imperva": """<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=1">Request unsuccessful.
        Incapsula incident ID: 123</iframe>""",
    "turnstile": """<title>example.com</title><h2>One more step</h2><p>Verify you are human by completing the action
        below.</p><div class="cf-turnstile"></div>""",
    "google": """<title>https://www.google.com/search</title><form id="captcha-form" action="index"></form>
        Our systems have detected unusual traffic from your computer network.""",
    "amazon": """<title>Amazon.com</title><form method="get" action="/errors/validateCaptcha"></form>""",
}


@pytest.mark.parametrize("name", BLOCKED)
def test_a_bot_check_is_blocked(name: str) -> None:
    assert verdict(BLOCKED[name], text="") is Verdict.BLOCKED
    assert verdict(BLOCKED[name]) is Verdict.BLOCKED


def test_a_refusal_needs_words_besides_its_status() -> None:
    refusal = "<title>example.com</title><p>Too many requests. Your request was blocked.</p>"
    assert verdict(refusal, status=429) is Verdict.BLOCKED
    assert verdict(refusal, status=200) is Verdict.CONTENT
    assert verdict("<title>Rates</title><p>A page about something else.</p>", status=403) is Verdict.CONTENT


LOGIN_FORM = (
    '<form action="/session"><input name="user"><input type="password" name="password"><button>Go</button></form>'
)


def test_a_page_that_is_a_login_form_is_a_login_wall() -> None:
    assert verdict(f"<title>Sign in · Example</title>{LOGIN_FORM}") is Verdict.LOGIN
    assert verdict(f"<title>Example</title><p>Welcome</p>{LOGIN_FORM}", url=f"{URL}/login?next=/x") is Verdict.LOGIN
    assert verdict("<title>Secret</title>", status=401) is Verdict.LOGIN


def test_a_consent_wall_is_a_login_wall() -> None:
    assert verdict("<title>x</title><p>y</p>", url="https://consent.youtube.com/m?continue=x") is Verdict.LOGIN
    wall = """<title>Before you continue</title><p>Before you continue to Example. We and our partners use cookies.</p>
        <form><button>Reject all</button><button>Accept all</button></form>"""
    assert verdict(wall) is Verdict.LOGIN


def test_a_page_that_only_scripts_would_fill_is_empty() -> None:
    assert verdict('<div id="root"></div><script src="/main.js"></script>') is Verdict.EMPTY
    noscript = "<noscript>You need to enable JavaScript to run this app.</noscript><div id='x'></div><script></script>"
    assert verdict(noscript) is Verdict.EMPTY
    assert verdict("<html><body></body></html>") is Verdict.EMPTY


@pytest.mark.parametrize(
    "html",
    [
        "<title>404 Not Found</title><h1>Not Found</h1><p>The requested URL was not found on this server.</p>",
        "<title>Page not found | Acme</title><h1>Oops!</h1><p>We can't seem to find the page you're looking for.</p>",
        "<title>Acme</title><h1>404</h1><p>This page does not exist.</p>",
        "<title>Seite nicht gefunden</title><p>Die Seite wurde nicht gefunden.</p>",
    ],
)
def test_an_error_page_with_status_200_is_a_soft_404(html: str) -> None:
    assert verdict(html) is Verdict.SOFT_404
    assert verdict(html, status=404) is Verdict.CONTENT  # its status says so already


@pytest.mark.parametrize(
    "html",
    [
        f"<title>How captchas work</title><h1>How captchas work</h1><p>Verify you are human: {ARTICLE}</p>",
        f"<title>Login best practices</title><p>{ARTICLE}</p><header>Log in</header>",
        "<title>Subscribe to our newsletter</title><h1>Subscribe</h1><p>Get news by mail. Log in for more.</p>",
        f"<title>Acme</title><h1>Our pumps</h1><p>Short but real content about pumps and water.</p>{LOGIN_FORM}",
        f"<title>How to fix 404 errors</title><h1>How to fix 404 errors</h1><p>A page was not found? {ARTICLE}</p>",
        "<title>404 Day in Atlanta</title><h1>404 Day in Atlanta</h1><p>" + "The city celebrates its area code. " * 10,
        "<title>Privacy</title><p>We value your privacy. You can accept all cookies or manage preferences.</p>",
        "<p>OK</p>",
        "<title>Contact</title><p>Mail us.</p><div class='g-recaptcha'></div><form><input name=mail></form>",
        '<div id="root"><p>A short page that a framework rendered itself.</p></div><script src="/m.js"></script>',
        "<p>News.</p><script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>",
    ],
)
def test_a_page_that_only_mentions_these_things_is_content(html: str) -> None:
    assert verdict(html) is Verdict.CONTENT


def test_a_long_text_is_content_whatever_else_the_page_has() -> None:
    html = f"<title>Just a moment...</title><p>{ARTICLE * 2}</p>{LOGIN_FORM}<p>verify you are human</p>"
    assert verdict(html, text=ARTICLE * 2) is Verdict.CONTENT


def test_a_page_without_a_tree_is_judged_by_its_text() -> None:
    assert judge(status=200, text="", title=None, page=None, url=URL)[0] is Verdict.EMPTY
    assert judge(status=200, text="Words.", title=None, page=None, url=URL)[0] is Verdict.CONTENT
