"""Reproductions of the papers' evaluations: their claims, tables and figures compared with ours."""
