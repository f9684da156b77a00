"""Cluster files as people write them."""

from __future__ import annotations

PROD = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: prod
  namespace: clusters
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.42.0.0/16]}
    services: {cidrBlocks: [10.43.0.0/16]}
  topology:
    classRef:
      name: kubehenge-rke2
      namespace: kubehenge-system
    version: v1.36.5+rke2r1
    controlPlane:
      replicas: 3
    workers:
      machineDeployments:
        - class: worker
          name: md-0
          replicas: 3
    variables:
      - name: controlPlaneEndpoint
        value: 192.0.2.50
      - name: network
        value:
          bridge: vmbr0
          addresses: [192.0.2.51-192.0.2.69]
          prefix: 24
          gateway: 192.0.2.1
          dnsServers: [192.0.2.1]
      - name: storage
        value: shared-storage
      - name: cni
        value: cilium
      - name: upgrades
        value:
          mode: patch
          window: {weekdays: [Sat], start: "02:00", durationMinutes: 240, timeZone: Europe/Berlin}
"""
"""The first Cluster that the handbook shows: three control-plane nodes, three workers."""

CLUSTER = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {name}
  namespace: {namespace}
  annotations: {annotations}
spec:
  topology:
    classRef: {{name: kubehenge-rke2, namespace: kubehenge-system}}
    version: {version}
    controlPlane: {{replicas: {control_planes}}}
    workers:
      machineDeployments:
        - {{class: worker, name: md-0, replicas: {workers}}}
    variables:
      - {{name: controlPlaneEndpoint, value: 10.{high}.{low}.10}}
      - name: network
        value:
          bridge: vmbr0
          addresses: [10.{high}.{low}.11-10.{high}.{low}.60]
          prefix: 24
          gateway: 10.{high}.{low}.1
          dnsServers: [10.{high}.{low}.1]
      - {{name: storage, value: shared-storage}}
"""

VERSION = "v1.36.5+rke2r1"
UPGRADE = "v1.37.1+rke2r1"


def cluster(
    name: str,
    net: int,
    *,
    namespace: str = "clusters",
    version: str = VERSION,
    control_planes: int = 1,
    workers: int = 0,
    annotations: str = "{}",
) -> str:
    """A small cluster; `net` (0 to 9,999) gives it a network of its own."""
    return CLUSTER.format(
        name=name,
        namespace=namespace,
        version=version,
        control_planes=control_planes,
        workers=workers,
        annotations=annotations,
        high=100 + net // 250,
        low=net % 250,
    )
