"""The Faust runtime, for teams that run Faust already."""
