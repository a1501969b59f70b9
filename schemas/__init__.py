"""What travels: one model per record, the topic table, the codec. Imports nothing of ours."""
