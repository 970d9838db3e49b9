"""Answers, as OpenAPI describes them, by resource."""
