"""The words that a tenant's documents use, for guessing what a misspelt query meant."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ForeignKey, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.clock import utc_now
from scrubjay.storage.repository import Base, Repository, batches, table_options
from scrubjay.storage.types import Id, UtcDateTime, short_text


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyWord:
    tenant_id: str
    word: str
    created_at: datetime = field(default_factory=utc_now)


class WordRow(Base):
    __tablename__ = "vocabulary"
    __table_args__ = table_options()

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    word: Mapped[str] = mapped_column(short_text(40), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Vocabulary(Repository[VocabularyWord]):
    row = WordRow
    model = VocabularyWord
    noun = "word"
    key = ("word",)

    async def learn(self, tenant_id: str, words: Collection[str]) -> None:
        """Add the words that are not known yet."""
        for batch in batches(sorted(words)):
            known = await self.connection.execute(
                select(WordRow.word).where(WordRow.tenant_id == tenant_id, WordRow.word.in_(batch))
            )
            fresh = set(batch) - set(known.scalars())
            if fresh:
                await self.add_many([VocabularyWord(tenant_id=tenant_id, word=word) for word in sorted(fresh)])

    async def words(self, tenant_id: str, limit: int) -> Sequence[str]:
        return await self.column(
            select(WordRow.word).where(WordRow.tenant_id == tenant_id).order_by(WordRow.word).limit(limit)
        )
