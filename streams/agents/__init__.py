"""The agents: each is given a batch of records and returns what to emit. They do no I/O."""
