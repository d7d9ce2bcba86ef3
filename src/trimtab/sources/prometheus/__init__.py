"""The source for Prometheus and compatible servers: queries, HTTP client, responses, node matching, history."""
