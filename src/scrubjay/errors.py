"""Every error Scrubjay raises on purpose. A class's docstring is its default message.

ScrubjayError
├── InvalidRequest            the caller sent something wrong; names the field
│   └── UrlInvalid            not an address that can be fetched
├── Unauthenticated           no key, or one that is not ours
├── Forbidden                 a good key without the scope
├── NotFound                  no such thing for this tenant
├── Conflict                  the thing exists but is not in a state for this
├── RateLimited               the key's requests per minute are used up
├── Unavailable               a part this needs is down; try again later
│   └── IndexCorrupt          the search index cannot be read; it can be built again
│   └── IndexElsewhere        another process has the embedded index; ask that one
├── BlobMissing               the blob store has no such body
├── BlobCorrupt               a stored body is not what its name says
├── SecretUnreadable          a sealed secret cannot be opened with this key
├── JobInterrupted            raised at a checkpoint; a handler lets it pass
│   ├── JobPauseRequested
│   ├── JobCancelRequested
│   ├── JobHandedBack
│   └── JobTakenOver
├── UrlBlocked                an address that this deployment must not reach
├── HostBlocked               somebody blocked the host
│   └── CircuitOpen           it failed too often, and is left alone for a while
├── FetchFailed               a request that ended without a usable answer; has an error_type
├── ExtractionFailed          content that could not be turned into text; has an error_type
├── JobFailedForGood          a handler says that trying again is useless
├── FollowerTooSlow           somebody who follows a log did not take what it was handed
└── StartupError              one sentence saying what to do; the process exits
    ├── ConfigurationError
    ├── HomeUnusable
    ├── HomeInUse
    ├── KeyFileExposed
    ├── DatabaseUnreachable
    └── SchemaTooNew
"""

from collections.abc import Mapping
from typing import Any


class ScrubjayError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or "Something went wrong.").strip().splitlines()[0]
        self.details = details
        super().__init__(self.message)


class InvalidRequest(ScrubjayError):
    """The request is not valid."""


class Unauthenticated(ScrubjayError):
    """A valid API key is required."""


class Forbidden(ScrubjayError):
    """This key may not do that."""


class NotFound(ScrubjayError):
    """There is no such thing."""


class Conflict(ScrubjayError):
    """The current state does not allow that."""


class RateLimited(ScrubjayError):
    """This key has used up its requests for this minute."""

    def __init__(self, message: str | None = None, *, limit: int, retry_after_seconds: int) -> None:
        super().__init__(message, limit=limit, retry_after_seconds=retry_after_seconds)
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds


class Unavailable(ScrubjayError):
    """A part that this needs is not available right now."""


class IndexCorrupt(Unavailable):
    """The search index cannot be read; build it again with 'scrubjay reindex'."""


class IndexElsewhere(Unavailable):
    """The search index is in use by another Scrubjay process; search through that one."""


class BlobMissing(ScrubjayError):
    """The blob store has no such body."""


class BlobCorrupt(ScrubjayError):
    """A stored body does not match its checksum; restore it from a backup or fetch its source again."""


class SecretUnreadable(ScrubjayError):
    """A sealed secret cannot be opened with the current secret key."""


class JobInterrupted(ScrubjayError):
    """The job stops at this checkpoint."""


class JobPauseRequested(JobInterrupted):
    """Somebody asked for this job to pause."""


class JobCancelRequested(JobInterrupted):
    """Somebody asked for this job to be cancelled."""


class JobHandedBack(JobInterrupted):
    """This worker is shutting down; another run will go on from the last checkpoint."""


class JobTakenOver(JobInterrupted):
    """This run no longer owns the job; another worker took it up."""


class UrlInvalid(InvalidRequest):
    """This is not a web address that can be fetched."""


class UrlBlocked(ScrubjayError):
    """This address must not be reached from here."""

    error_type = "blocked_address"


class HostBlocked(ScrubjayError):
    """This host is blocked."""

    error_type = "blocked_host"


class CircuitOpen(HostBlocked):
    """This host failed too often; it is left alone for a while."""

    error_type = "circuit_open"

    def __init__(self, message: str | None = None, *, wait_seconds: float = 0.0) -> None:
        super().__init__(message, wait_seconds=wait_seconds)
        self.wait_seconds = wait_seconds


class FetchFailed(ScrubjayError):
    """The page could not be fetched."""

    never_sent = False  # nobody was reached, so nothing was asked for
    attempts = 1

    def __init__(self, message: str | None = None, *, error_type: str = "connection", **details: Any) -> None:
        super().__init__(message, error_type=error_type, **details)
        self.error_type = error_type


class ExtractionFailed(ScrubjayError):
    """The content could not be turned into text."""

    def __init__(self, message: str | None = None, *, error_type: str = "extraction", **details: Any) -> None:
        super().__init__(message, error_type=error_type, **details)
        self.error_type = error_type


class JobFailedForGood(ScrubjayError):
    """Trying this job again would not help."""

    def __init__(self, message: str | None = None, *, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = result  # what the job had done until then


class FollowerTooSlow(ScrubjayError):
    """This listener was too slow; go on after the last event that it got."""

    def __init__(self, message: str | None = None, *, position: int = 0) -> None:
        super().__init__(message, after=position)
        self.position = position


class StartupError(ScrubjayError):
    """Scrubjay cannot start."""


class ConfigurationError(StartupError):
    """A setting is not valid."""


class HomeUnusable(StartupError):
    """The data folder cannot be used."""


class HomeInUse(StartupError):
    """Another Scrubjay process already uses this data folder."""


class KeyFileExposed(StartupError):
    """A key file can be read by other users."""


class DatabaseUnreachable(StartupError):
    """The database cannot be reached."""


class SchemaTooNew(StartupError):
    """The database was written by a newer version of Scrubjay."""
