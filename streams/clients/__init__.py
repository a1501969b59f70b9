"""What an application imports."""
