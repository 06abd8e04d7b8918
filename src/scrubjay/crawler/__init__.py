"""The one way out: fetching with an egress guard, politeness, robots, sitemaps and the frontier of a crawl."""
