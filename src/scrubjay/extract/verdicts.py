"""Is a fetched page the content that was asked for, or a bot check, a login wall, an empty shell, a disguised 404?

Every verdict but "content" needs evidence of its own kind in a page that says little; a long text is content whatever
words it uses.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scrubjay.extract.tree import TAG_NUMBERS, PageTree, collapse, text_of
from scrubjay.model.extraction import Verdict

# No bot check and no login form has this much to say.
CONTENT_CHARACTERS = 1_500
_WALL_CHARACTERS = 800
_SHELL_CHARACTERS = 200
_HTML_BYTES = 60_000
_INVISIBLE = {TAG_NUMBERS[tag] for tag in ("script", "style", "noscript", "template", "head", "title")}


# What a vendor's check page is made of. Ordinary pages behind the same vendor do not have these.
_VENDOR_MARKS = (
    ("Cloudflare", re.compile(r"_cf_chl_opt|id=\"challenge-(form|error-text|running)\"|id=\"cf-error-details\"")),
    ("PerimeterX", re.compile(r"id=\"px-captcha\"|/px/captcha|_pxBlockedUrl|px-captcha-wrapper")),
    ("DataDome", re.compile(r"captcha-delivery\.com/(c\.js|i\.js|captcha|interstitial)|var dd=\{")),
    ("Imperva", re.compile(r"_Incapsula_Resource\?(?!SWJIYLWA)|Incapsula incident ID|id=\"main-iframe\" src=\"/_Inc")),
    ("AWS WAF", re.compile(r"awsWafCookieDomainList|AwsWafIntegration\.(saveReferrer|getToken|forceRefresh)")),
    ("Akamai", re.compile(r"errors\.edgesuite\.net|id=\"sec-(if-)?cpt-container\"|/_sec/cp_challenge/")),
    ("Kasada", re.compile(r"window\.KPSDK=\{\}|ips\.js\?[^\"']*KP_UIDz")),
    ("Sucuri", re.compile(r"sucuri\.net/privacy-policy|Sucuri WebSite Firewall - Access Denied")),
    ("Amazon", re.compile(r"action=\"/errors/validateCaptcha\"")),
    ("Google", re.compile(r"action=\"CaptchaRedirect\"|id=\"captcha-form\"")),
)
_BLOCK_TITLES = re.compile(
    r"^(just a moment|attention required|access (to this page )?(has been )?denied|pardon our interruption"
    r"|please verify you are a human|are you a robot|robot check|bot verification|security check"
    r"|checking your browser|ddos-guard|human verification|you have been blocked|one moment, please|403 forbidden"
    r"|access denied|request rejected|sorry, you have been blocked|429 too many requests)",
    re.IGNORECASE,
)
_BLOCK_PHRASES = re.compile(
    r"verify(ing)? (that )?you('re| are) (a )?(not a (ro)?bot|human)|are you a (ro)?bot\b|you are not a (ro)?bot"
    r"|unusual (traffic|activity) (from|in)|checking (if the site connection is secure|your browser)"
    r"|press (&|and) hold|complete the (captcha|security check)"
    r"|access (to this (page|site|resource) )?(is|was|has been) (denied|blocked)|you have been blocked"
    r"|you don't have permission to access|enable (javascript and )?cookies to continue"
    r"|automated (access|requests|queries)|too many requests|request (was )?(blocked|rejected)"
    r"|ray id|reference #\d|support id|incident id",
    re.IGNORECASE,
)
_CAPTCHA_WIDGET = re.compile(
    r"class=\"[^\"]*\b(g-recaptcha|h-captcha|cf-turnstile|frc-captcha)\b|(hcaptcha|recaptcha)/api2?/|arkoselabs\.com"
)
_LOGIN_WORDS = re.compile(
    r"\b(log[ -]?in|sign[ -]?in|log on|anmelden|einloggen|connexion|se connecter|iniciar sesi[oó]n|accedi|inloggen"
    r"|authentication required|members only|single sign-on|sso)\b",
    re.IGNORECASE,
)
_LOGIN_PATHS = re.compile(
    r"/(login|log-in|signin|sign-in|sign_in|auth|sso|wp-login\.php|account/login|users/sign)", re.I
)
_CONSENT_HOSTS = re.compile(r"^(consent|guce)\.")
_CONSENT_PHRASES = re.compile(
    r"before you continue|we value your privacy|accept (all )?cookies|reject all|accept all|manage (your )?(choices"
    r"|preferences|cookies)|cookie settings|consent to (the use|our)|alle akzeptieren|tout accepter|our partners (store"
    r"|use|and)|confirm your age|are you (over|at least) (18|21)",
    re.IGNORECASE,
)
_MISSING_TITLES = re.compile(
    r"^\W*(error\s*:?\s*)?(404\b(?!\s+errors)|(the )?page (not found|can'?t be found|cannot be found|doesn'?t exist)"
    r"|not found|oops|seite nicht gefunden|page introuvable|page non trouv[ée]e|p[aá]gina no encontrada"
    r"|pagina non trovata|file not found|nothing found|we can'?t find (that|this|the) page)"
    r"|[-|–—:]\s*(404|page not found|not found|404 not found)\W*$",
    re.IGNORECASE,
)
_MISSING_PHRASES = re.compile(
    r"(page|url|link|file|content|article|product|address)( that)?( you| you're| you are)?( \w+){0,6} (not (be )?found"
    r"|not exist|does not exist|doesn'?t exist|no longer (exists|available)|(has|have) (been )?(moved|removed|deleted)"
    r"|(is|are) (not|no longer) available|couldn'?t be found|cannot be found|can'?t be found|is missing)"
    r"|can('?t|not) (seem to )?find (the|that|this|what)|couldn'?t find (the|that|this|what)|404 (error|not found)"
    r"|error 404|nicht gefunden|existiert nicht|introuvable|n'existe pas|no (se )?(ha )?encontr|non (è stata )?trovata"
    r"|nothing was found|broken link",
    re.IGNORECASE,
)
_NEEDS_SCRIPT = re.compile(
    r"(enable|activate|turn on|requires?|need) (your )?java\s?script|javascript (is )?(required|disabled|not enabled)"
    r"|without javascript|java\s?script aktivieren|activer javascript",
    re.IGNORECASE,
)
_SHELL_IDS = (
    "root",
    "app",
    "__next",
    "__nuxt",
    "app-root",
    "react-root",
    "main-app",
    "svelte",
    "ember-app",
    "___gatsby",
)


@dataclass(frozen=True, slots=True)
class _JudgedPage:
    status: int
    text: str
    extracted: str
    title: str
    heading: str
    url: str
    tree: PageTree | None
    html: str
    noscript: str

    def has(self, selector: str) -> bool:
        return self.tree is not None and self.tree.root.css_first(selector) is not None


def looks_like_content(*, status: int, text: str) -> bool:
    """Whether a page needs no second look: it came with success and has a lot to say."""
    return status < 400 and len(text) >= CONTENT_CHARACTERS


def judge(
    *, status: int, text: str | None, title: str | None, page: PageTree | None, url: str
) -> tuple[Verdict, str | None]:
    """The verdict and, for everything but content, the evidence in one sentence. Without a text, the page's is used."""
    visible = _visible_text(page.body) if page is not None else ""
    extracted = visible if text is None else text
    if looks_like_content(status=status, text=extracted):
        return Verdict.CONTENT, None
    suspect = _JudgedPage(
        status=status,
        # Where extraction found next to nothing, what it left out is the evidence.
        text=visible if len(extracted) < min(_SHELL_CHARACTERS, len(visible)) else extracted,
        extracted=extracted,
        title=collapse(title or ""),
        heading=_first_heading(page),
        url=url,
        tree=page,
        html=(page.root.html or "")[:_HTML_BYTES] if page is not None else "",
        noscript=collapse(" ".join(map(text_of, page.find("noscript")))) if page is not None else "",
    )
    for check in (_blocked, _consent, _login, _missing, _empty):
        verdict = check(suspect)
        if verdict is not None:
            return verdict
    return Verdict.CONTENT, None


def _first_heading(page: PageTree | None) -> str:
    heading = next(page.find("h1", "h2"), None) if page is not None else None
    return collapse(text_of(heading)) if heading is not None else ""


def _visible_text(element: LexborNode) -> str:
    pieces: list[str] = []
    waiting = [element.first_child]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        text = node.text_content
        if text is not None:
            pieces.append(text)
        elif node.tag_id not in _INVISIBLE:
            waiting += [node.next, node.first_child]
            continue
        waiting.append(node.next)
    return collapse(" ".join(pieces))


def _blocked(page: _JudgedPage) -> tuple[Verdict, str] | None:
    vendor = next((name for name, mark in _VENDOR_MARKS if mark.search(page.html)), None)
    if vendor:
        return Verdict.BLOCKED, f"The page is a bot check of {vendor}."
    names = next((text for text in (page.title, page.heading) if _BLOCK_TITLES.match(text)), None)
    phrase = _BLOCK_PHRASES.search(page.text) or _BLOCK_PHRASES.search(page.noscript)
    if names and (phrase or page.status in (403, 429, 503) or len(page.text) < _SHELL_CHARACTERS):
        return Verdict.BLOCKED, f"The page is called “{names[:80]}”."
    if phrase and len(page.text) < _WALL_CHARACTERS:
        if _CAPTCHA_WIDGET.search(page.html):
            return Verdict.BLOCKED, f"The page asks to solve a captcha: “{phrase.group()}”."
        if page.status in (403, 429, 503):
            return Verdict.BLOCKED, f"Status {page.status} came with “{phrase.group()}”."
    return None


def _consent(page: _JudgedPage) -> tuple[Verdict, str] | None:
    host = urlsplit(page.url).hostname or ""
    if _CONSENT_HOSTS.match(host):
        return Verdict.LOGIN, f"The host {host} asks for consent before it shows anything."
    phrases = {match.group().lower() for match in _CONSENT_PHRASES.finditer(page.text)}
    if len(phrases) >= 3 and len(page.text) < CONTENT_CHARACTERS and page.has("form"):
        return Verdict.LOGIN, "The page asks for consent and has no other content."
    return None


def _login(page: _JudgedPage) -> tuple[Verdict, str] | None:
    if page.status == 401:
        return Verdict.LOGIN, "Status 401: the page is only for those who are signed in."
    if len(page.text) >= _WALL_CHARACTERS or not page.has("input[type=password i]"):
        return None
    named = _LOGIN_WORDS.search(page.title) or _LOGIN_WORDS.search(page.heading)
    if named or _LOGIN_PATHS.search(urlsplit(page.url).path):
        return Verdict.LOGIN, "The page is a form that asks for a password."
    if len(page.text) < _SHELL_CHARACTERS and _LOGIN_WORDS.search(page.text):
        return Verdict.LOGIN, "The page has little but a form that asks for a password."
    return None


def _missing(page: _JudgedPage) -> tuple[Verdict, str] | None:
    """A success that says otherwise, in its name and in its text."""
    if page.status >= 400:
        return None
    name = next((text for text in (page.title, page.heading) if _MISSING_TITLES.search(text)), None)
    if name is None:
        return None
    other = page.heading if name == page.title else page.title
    phrase = _MISSING_PHRASES.search(page.text) or _MISSING_PHRASES.search(other)
    if phrase or len(page.text) < _SHELL_CHARACTERS:
        return Verdict.SOFT_404, f"The page is called “{name[:80]}”."
    return None


def _empty(page: _JudgedPage) -> tuple[Verdict, str] | None:
    if len(page.extracted) >= _SHELL_CHARACTERS:
        return None
    shell = _empty_shell(page.tree) if page.tree is not None else None
    if shell:
        return Verdict.EMPTY, f"Scripts would have filled the element #{shell}."
    if len(page.text) >= _SHELL_CHARACTERS:
        return None
    needs_script = _NEEDS_SCRIPT.search(page.text) or _NEEDS_SCRIPT.search(page.noscript)
    if needs_script:
        return Verdict.EMPTY, f"The page has no content without scripts: “{needs_script.group()}”."
    return None if page.text.strip() else (Verdict.EMPTY, "The page has no text.")


def _empty_shell(page: PageTree) -> str | None:
    if next(page.find("script"), None) is None:
        return None
    for name in _SHELL_IDS:
        container = page.root.css_first(f"#{name}")
        if container is not None and len(_visible_text(container)) < 40:
            return name
    return None
