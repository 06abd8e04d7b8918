"""The index and how it is asked: one protocol, three engines, fusion, reranking, highlights and cursors."""
