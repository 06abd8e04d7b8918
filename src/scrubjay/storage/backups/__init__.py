"""Everything that cannot be made again, in one file: taken while Scrubjay runs, restored into an empty place."""
