"""Per-request exports of load tools, read as rows; their aggregates are not."""
