"""The `/api/v1` door (specification 001). README.md beside this file says what it settles."""
