"""Input, validated, as rows and groups of rows."""
