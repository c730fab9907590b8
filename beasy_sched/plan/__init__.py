"""The offline side: from forecasts of demand and production to a checked plan of power and servers."""
