"""The dashboard: pages for people, rendered here, that go on by themselves while something runs."""
