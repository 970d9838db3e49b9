"""A day in production, with the real parts: Redis with eviction, nginx, private authorities, stopped processes."""
