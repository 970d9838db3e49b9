"""Schemas of the API's answers for OpenAPI, with a module for each resource."""
