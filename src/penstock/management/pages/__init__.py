"""The web pages below `/`: what the HTTP API knows, for people.

Pages are made on the server with Jinja2; one small script fetches the page again while it is looked
at. They read and change through the API's own handlers, so rights, checks and error texts are the
API's. What all open pages show is one sample of the broker a second.

In it: sessions, shared samples and their history, templates, handlers by page, actions of forms.
Enters: requests of browsers, with a cookie of a session.
Leaves: HTML.
Begin with: routes.
"""
