"""Forecasts of solar production: conditions, the predictor of GreenSlot, its errors, what policies see."""
