"""Modal dialogs that each ask the user one question; closing a dialog without approving refuses the request."""
