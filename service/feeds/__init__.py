"""Feeds, without HTTP, stores and threads: turn readings into forecasts with prediction intervals, and score them."""
