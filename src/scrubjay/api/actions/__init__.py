"""Door: `/v2` action endpoints, declared as data (`README.md`), and the Query API."""
