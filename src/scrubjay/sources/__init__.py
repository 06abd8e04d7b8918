"""Where content comes from. Each connector enumerates a source and reads it lazily."""
