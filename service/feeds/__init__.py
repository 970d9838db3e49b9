"""Forecasting feeds: raw readings in, forecasts with a band and their record out. Knows no HTTP, store or thread."""
