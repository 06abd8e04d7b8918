"""Where a run puts what it took in, besides the documents: the export of a plan."""
