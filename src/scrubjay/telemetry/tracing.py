"""Traces, if an OTLP endpoint is configured: one trace follows a request into its job, its fetches and the index.

Without an endpoint nothing of OpenTelemetry is imported, and `span` gives the same empty thing to everybody. Between
processes a trace travels as a `traceparent`, in a job's payload. Attributes name hosts and ids, never whole
addresses: a path or a query may be a secret.
"""

import os
import platform
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from scrubjay import __version__
from scrubjay.errors import ConfigurationError, JobInterrupted
from scrubjay.telemetry.logs import redact

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
TRACEPARENT = "traceparent"
TRACES_PATH = "/v1/traces"
EXPORT_SECONDS = 5
QUEUE_SPANS = 8192
QUEUE_MILLISECONDS = 1000


class Span(Protocol):
    """A piece of work that takes time."""

    def set(self, **attributes: str | float | None) -> None:
        """Say more about it; a dot in a name is written as two underscores."""

    def rename(self, name: str) -> None:
        """For what only shows what it is when it is done."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None: ...


class _NoSpan:
    __slots__ = ()

    def set(self, **attributes: str | float | None) -> None:
        """Nobody listens."""

    def rename(self, name: str) -> None:
        """Nobody listens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Nothing was begun."""


_NO_SPAN = _NoSpan()
_tracer: "Tracer | None" = None


def is_tracing() -> bool:
    return _tracer is not None


def span(
    name: str,
    kind: SpanKind = "internal",
    *,
    parent: str | None = None,
    links: Iterable[str] = (),
    **attributes: str | float | None,
) -> Span:
    """A span around a `with` block: below the one that is current, or below `parent`, a traceparent."""
    if _tracer is None:
        return _NO_SPAN
    return _RealSpan(_tracer, name, kind, parent, links, attributes)


def traceparent() -> str | None:
    """Where we are in which trace, to be continued elsewhere."""
    if _tracer is None:
        return None
    from opentelemetry.trace import get_current_span

    place = get_current_span().get_span_context()
    if not place.is_valid:
        return None
    return f"00-{place.trace_id:032x}-{place.span_id:016x}-{int(place.trace_flags):02x}"


class _RealSpan:
    def __init__(
        self,
        tracer: "Tracer",
        name: str,
        kind: SpanKind,
        parent: str | None,
        links: Iterable[str],
        attributes: dict[str, Any],
    ) -> None:
        from opentelemetry.trace import Link
        from opentelemetry.trace import SpanKind as Kind

        linked = [Link(place) for place in map(_place, links) if place is not None]
        self._scope = tracer.start_as_current_span(
            name,
            context=None if parent is None else _context(parent),
            kind=Kind[kind.upper()],
            attributes=_attributes(attributes),
            links=linked,
            record_exception=False,  # its message and its traceback could tell a secret
            set_status_on_exception=False,
        )

    def set(self, **attributes: str | float | None) -> None:
        self._span.set_attributes(_attributes(attributes))

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def __enter__(self) -> Self:
        self._span = self._scope.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, JobInterrupted):
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, type(error).__name__)
            self._span.set_attribute("error.type", getattr(error, "error_type", None) or type(error).__name__)
        self._scope.__exit__(None, None, None)


def _attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("__", "."): redact(value) for name, value in attributes.items() if value is not None}


def _context(parent: str) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    # Into an empty one: what is malformed begins a trace of its own, and not below whatever is current here.
    return TraceContextTextMapPropagator().extract({TRACEPARENT: parent}, Context())


def _place(parent: str) -> Any:
    from opentelemetry.trace import get_current_span

    place = get_current_span(_context(parent)).get_span_context()
    return place if place.is_valid else None


def open_tracing(endpoint: str) -> Callable[[], None]:
    """Send traces to an OTLP endpoint from here on; returns what ends it, which blocks for a moment."""
    global _tracer
    if _tracer is not None:
        return lambda: None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError("The setting 'otlp_endpoint' needs a package: pip install 'scrubjay[otel]'") from error
    own = Resource(
        {
            "service.name": "scrubjay",
            "service.version": __version__,
            "service.instance.id": f"{platform.node()}:{os.getpid()}",
        }
    )
    address = endpoint.rstrip("/")
    exporter = OTLPSpanExporter(
        endpoint=address if address.endswith(TRACES_PATH) else address + TRACES_PATH, timeout=EXPORT_SECONDS
    )
    # Not made the global provider: what other libraries would tell of themselves is not ours to send.
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=QUEUE_SPANS, schedule_delay_millis=QUEUE_MILLISECONDS)
    )
    _tracer = provider.get_tracer("scrubjay", __version__)

    def close() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return close
