"""The lab's management cluster: a small Kubernetes API server over HTTPS, and behind it a model of Cluster API and capmox."""
