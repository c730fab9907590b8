"""Forecasts of solar production: conditions, GreenSlot's predictor, its errors, and the policies' view."""
