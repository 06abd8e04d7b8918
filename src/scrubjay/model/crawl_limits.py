"""What crawl configs, proxies and host settings may say: the same limits at every door."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

SettingName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
HeaderName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
HeaderValue = Annotated[str, StringConstraints(max_length=8000)]
Rate = Annotated[float, Field(ge=0.1, le=10)]
Extraction = Literal["markdown", "structured", "raw", "browser", "trafilatura", "crawl4ai", "llm"]
Chunking = Literal["sliding_window", "structure", "fixed", "sentence", "table_rows", "whole_list"]
Depth = Annotated[int, Field(ge=0, le=100)]
ChunkSize = Annotated[int, Field(ge=100, le=2000)]
ChunkOverlap = Annotated[int, Field(ge=0, le=500)]
MinChunkSize = Annotated[int, Field(ge=10, le=500)]
PageTimeout = Annotated[int, Field(ge=5000, le=120_000)]
PageMegabytes = Annotated[int, Field(ge=1, le=100)]
Redirects = Annotated[int, Field(ge=0, le=20)]
ProxyUser = Annotated[str, StringConstraints(max_length=200)]
ProxyPassword = Annotated[str, StringConstraints(max_length=1000)]
BreakerThreshold = Annotated[int, Field(ge=1, le=20)]
BreakerSeconds = Annotated[int, Field(ge=60, le=3600)]
Reason = Annotated[str, StringConstraints(max_length=500)]
MAX_HEADERS = 50
MAX_PROXY_SERVERS = 100
