"""Producers: transactions, eventual logs, side topics."""
