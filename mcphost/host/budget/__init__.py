"""Records of the cost of model requests, and budget limits that are checked before each request."""
