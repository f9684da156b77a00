"""The driver of Proxmox VE."""

from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.driver import ProxmoxDriver

__all__ = ["ProxmoxClient", "ProxmoxDriver"]
