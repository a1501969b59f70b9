"""The moment from which a metric's mean differs from that of earlier days, and how certain that is."""
