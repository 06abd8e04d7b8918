"""Documents: bytes become chunks, chunks become vectors, both become findable; and everything that ends them."""
