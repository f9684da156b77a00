module kubehenge.dev/plane/k3s

go 1.26.0

require github.com/k3s-io/cluster-api-k3s v0.3.1
