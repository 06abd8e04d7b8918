"""`/jobs`, `/watches` and what steers crawls: specification 003."""
