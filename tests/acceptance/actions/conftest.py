"""Fixtures for `/v2`: the same working house as `/api/v1` has."""

from tests.acceptance.rag.conftest import address, library, model_server, owner, site

__all__ = ["address", "library", "model_server", "owner", "site"]
