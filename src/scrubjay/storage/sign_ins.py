"""One-time sign-in links and the browser sessions they become; only hashes of their tokens are kept."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, delete
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.tenant import SignIn
from scrubjay.storage.repository import Base, Repository
from scrubjay.storage.types import Hash, Id, UtcDateTime


class SignInRow(Base):
    __tablename__ = "sign_ins"

    token_hash: Mapped[Hash] = mapped_column(primary_key=True)
    key_id: Mapped[Id] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SignIns(Repository[SignIn]):
    row = SignInRow
    model = SignIn
    noun = "sign-in"
    key = ("token_hash",)

    async def find_valid(self, token_hash: str, kind: str, now: datetime) -> SignIn | None:
        return await self.find(SignInRow.token_hash == token_hash, SignInRow.kind == kind, SignInRow.expires_at > now)

    async def consume(self, token_hash: str) -> bool:
        """Remove it; true for exactly one caller."""
        return await self.changed(delete(SignInRow).where(SignInRow.token_hash == token_hash))

    async def end_of_key(self, key_id: str) -> None:
        """End every session of a key, and its links."""
        await self.connection.execute(delete(SignInRow).where(SignInRow.key_id == key_id))

    async def delete_expired(self, now: datetime) -> int:
        return await self.write(delete(SignInRow).where(SignInRow.expires_at <= now))
