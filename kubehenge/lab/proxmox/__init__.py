"""The lab's simulated Proxmox VE cluster."""
