"""Watches: feeds, sitemaps and pages are polled cheaply; what is new is scored, and crawled when it is news."""
