"""Self-contained HTML pages, and their templates."""
