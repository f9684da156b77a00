module kubehenge.dev/plane/capmox

go 1.26.4

require github.com/ionos-cloud/cluster-api-provider-proxmox v0.9.0

replace sigs.k8s.io/cluster-api => sigs.k8s.io/cluster-api v1.13.6
