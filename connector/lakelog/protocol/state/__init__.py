"""What commits and records say: headers of transactions, the state of the log in a snapshot, ports to both stores."""
