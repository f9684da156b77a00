"""What a cluster and a site need: for each kind its desired form, its comparison and its risk. Pure."""
