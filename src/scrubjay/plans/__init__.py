"""Runs that keep documents equal to their sources: crawl, compare, ingest, retire."""
