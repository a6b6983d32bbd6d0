"""Front ends without a screen: one turn (`run`), and the whole Host over JSON lines (`pipe`)."""
