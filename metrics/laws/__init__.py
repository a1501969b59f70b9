"""The laws that every metric keeps, and the events that they are checked on."""
