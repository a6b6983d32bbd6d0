"""Modal dialogs, each of which asks the user one question.

Closing a dialog without approving refuses the request.
"""
