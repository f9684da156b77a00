"""How a secret is recognised without being kept: an HMAC under the site's own key (MODEL 8)."""

from __future__ import annotations

import hashlib
import hmac

from pydantic import SecretStr


def secret_hmac(site_key: bytes, secret: SecretStr) -> str:
    """Return HMAC-SHA-256 of a secret under the site's key, in hex; equal for equal secrets of one site only."""
    return hmac.new(site_key, secret.get_secret_value().encode(), hashlib.sha256).hexdigest()
