"""Modal dialogs that each ask one question; closing a dialog without approving refuses the request."""
