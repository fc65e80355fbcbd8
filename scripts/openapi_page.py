"""Prints docs/openapi.json: the HTTP API as OpenAPI, from the table of routes.

python scripts/openapi_page.py > docs/openapi.json
"""

import json

from penstock.management.app import all_routes
from penstock.management.openapi import document


def page() -> str:
    """The file."""
    return json.dumps(document(all_routes()), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(page(), end="")
