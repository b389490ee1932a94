"""Commands of logs, brokers, statements and ingests."""
