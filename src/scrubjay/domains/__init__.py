"""Domains (spec 002): their definitions on disk, the steps of a domain's crawl, and job files that people can read."""
