"""The requirements of the specification for a host, one per line, and the tests that claim them."""
