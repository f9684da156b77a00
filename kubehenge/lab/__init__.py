"""The lab: a simulated site on this machine, with Proxmox VE, a management cluster and Git."""
