"""Pages for people who look at answers: server-rendered HTML over the answers of analysis."""
