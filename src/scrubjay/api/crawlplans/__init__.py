"""The door `/v1.0` of specification 000: crawl plans, their operations, ingestion rules and documents."""
