"""Clients that an application imports."""
