"""A model of Cluster API and capmox: level-triggered, with no state but the API server's objects and Proxmox VE's VMs."""
