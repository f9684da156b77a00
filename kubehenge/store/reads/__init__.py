"""
What pages and command line ask of the state database.

Every function takes a session that only reads, the site's id and, where clusters are named, who sees what (`Visible`). Each is one
or a few set-based statements on indexes; lists come in pages of 100.
"""
