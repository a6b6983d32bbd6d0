"""What was asked, decided and done, on its way into the ledger."""
