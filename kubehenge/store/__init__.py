"""The state database: rows, queries, leases, the ledger and the reporting views."""
