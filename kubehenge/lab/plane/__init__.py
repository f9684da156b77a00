"""The lab's plane: a real Kubernetes API server with Cluster API and its providers, as plain processes on loopback ports."""
