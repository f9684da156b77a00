"""The page and the JSON API: Flask, Jinja and htmx; everything works with links and forms alone."""
