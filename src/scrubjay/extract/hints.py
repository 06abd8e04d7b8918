"""The fixed vocabularies of the HTML extractor: tags, class names, words and address parts that tell content apart."""

_STOPWORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which you were her she all their there been one so we if when can would who will more no out do what up its
about into than them then some could these may like only other your my me our i how because most also any
der die das und ist nicht ein eine zu den mit von auf für dem im sich des auch als an es wie werden bei le
la les de des et en un une du que est pour dans qui sur pas au avec par plus ne se ce sont il elle el los
las y que en es por con para una su al del lo como más pero sus che di il per non con sono della nel gli i
"""
STOPWORDS = frozenset(_STOPWORDS.split())

BLOCK_TAGS = {
    tag: code
    for code, tags in enumerate(
        (
            "other", "h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "li", "td", "th", "dd", "dt", "pre", "button",
            "figcaption", "blockquote", "section article main body", "summary details", "header", "footer nav aside",
            "address", "caption", "noscript", "form fieldset legend", "center", "ul ol dl", "figure",
        )
    )
    for tag in tags.split()
}  # fmt: skip

ANCESTOR_TAGS = {
    tag: 1 << bit
    for bit, tags in enumerate(
        (
            "nav", "header", "footer", "aside", "main", "article", "section", "ul", "ol", "table", "form", "figure",
            "blockquote", "details", "dl", "noscript", "button", "dialog", "li", "p",
        )
    )
    for tag in tags.split()
}  # fmt: skip

CLASS_HINTS = tuple(
    frozenset(words.split())
    for words in (
        "nav navbar navigation menu menus submenu megamenu navigations topnav",
        "footer foot colophon bottom",
        "header head masthead topbar hdr banner",
        "sidebar side aside rail secondary right left complementary widget widgets",
        "comment comments disqus respond commentlist discussion replies",
        "related recommended recommendations recommendation more similar also upsell crosssell trending popular recirc",
        "share sharing social sharedaddy facebook twitter linkedin pinterest follow",
        "cookie cookies consent gdpr onetrust privacy ccpa",
        "ad ads advert advertisement sponsor sponsored promo promotion promoted dfp adunit",
        "modal popup overlay lightbox dialog drawer flyout offcanvas tooltip dropdown toast",
        "hidden scrubjay invisible sr visually screenreader offscreen hide none collapse",
        "author byline meta metadata info postmeta avatar bio contributor date time timestamp published",
        "price prices pricing cost sale discount amount money",
        "product products sku pdp variant variants swatch swatches",
        "review reviews rating ratings stars testimonial testimonials ugc",
        "breadcrumb breadcrumbs crumbs crumb",
        "newsletter subscribe subscription signup optin mailchimp email form",
        "content entry body articlebody text richtext prose wysiwyg copy rte story markdown bodytext",
        "article post blog news main primary page single hentry",
        "title headline heading subtitle standfirst dek lead lede intro summary excerpt",
        "caption figcaption credit figure image img photo gallery thumbnail thumb carousel slider slide swiper media",
        "tag tags category categories topic topics label labels chip badge",
        "pagination pager paging prev next previous pages paginate load",
        "search searchbox autocomplete query",
        "filter filters facet facets sort sorting refine refinement",
        "cart basket checkout bag wishlist minicart buy shop",
        "card cards item items tile tiles grid list listing collection result results feed teaser",
        "toc contents toctree outline onthispage",
        "reply message quote quoted thread threads forum bbcode cooked",
        "signature sig user username profile member poster postprofile",
        "login signin account register auth password",
        "faq accordion tab tabs panel tabpanel question answer collapsible expand",
        "hero jumbotron cta callout feature features benefit benefits section",
        "description desc details detail specs spec specification specifications features overview",
        "copyright legal disclaimer terms",
        "language locale country region currency translate",
        "code highlight snippet syntax sourcecode",
        "table row cell",
        "button btn action actions toolbar controls control",
        "skip accessibility edit print feedback helpful",
    )
)

WORD_HINT_KINDS = (
    "cookie cookies consent gdpr",
    "copyright rights reserved",
    "subscribe newsletter inbox unsubscribe",
    "login log signin sign register password account",
    "share facebook twitter linkedin pinterest instagram whatsapp tweet youtube",
    "cart checkout basket bag wishlist",
    "shipping delivery returns refund",
    "reply replies quote quoted",
    "posted joined posts member views likes",
    "related recommended similar popular trending latest",
    "comment comments",
    "menu navigation skip search",
    "read more view see learn show load next previous",
    "filter sort results showing",
    "review reviews rating stars",
    "january february march april may june july august september october november december jan feb mar apr jun jul "
    "aug sep sept oct nov dec",
    "ago hours minutes days yesterday today",
    "privacy policy terms conditions",
    "price sale regular from off save",
    "by author written editor updated published",
    "advertisement sponsored ad affiliate",
    "faq question questions answer answers",
    "contact call phone email address",
    "edit report permalink helpful feedback print",
)
WORD_HINTS: dict[str, int] = {}
for _bit, _words in enumerate(WORD_HINT_KINDS):
    for _word in _words.split():
        WORD_HINTS[_word] = WORD_HINTS.get(_word, 0) | 1 << _bit

URL_HINTS = tuple(
    frozenset(words.split())
    for words in (
        "blog blogs post posts news article articles story stories magazine",
        "product products item items dp p pd sku itm",
        "collection collections category categories c cat department browse shop store",
        "forum forums thread threads topic topics t viewtopic showthread community discussion discussions questions",
        "docs doc documentation guide guides reference api manual help tutorial learn wiki man",
        "service services solution solutions pricing about company features platform",
        "tag tags archive archives search list listing directory jobs events",
        "recipe recipes review reviews best",
    )
)

LD_TYPES = (
    "Article", "NewsArticle", "BlogPosting", "TechArticle", "Product", "ProductGroup", "ItemList", "CollectionPage",
    "DiscussionForumPosting", "QAPage", "FAQPage", "Question", "Recipe", "WebPage", "WebSite", "Organization",
    "LocalBusiness", "Service", "BreadcrumbList", "Offer", "AggregateRating", "Comment", "ImageObject", "VideoObject",
    "Person", "HowTo", "SoftwareApplication", "Blog", "ListItem", "Event", "JobPosting",
)  # fmt: skip
