"""One page of a list, whatever the list is of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    total: int
    limit: int
    offset: int
    is_counted: bool = True  # a long list may be counted up to some number only; then there are more than `total`

    def with_items(self, items: "Sequence[S]") -> "Page[S]":
        """The same page with each item replaced by something made from it."""
        return Page(items, self.total, self.limit, self.offset, self.is_counted)

    @property
    def has_more(self) -> bool:
        shown = self.offset + len(self.items)
        return shown < self.total or (not self.is_counted and len(self.items) == self.limit)
